// Package browser judges whether a call to the API may come from where a browser
// says that it comes from.
//
// A web page can send requests to any address that its visitor can reach, also
// to a cell on the visitor's network or machine; the browser keeps it from
// reading the answer, not from sending. It says in two headers whose page it
// was, and in Host whom it takes the server for. So calls that change something
// and come from another site's page are refused, and so are calls by a name
// that is not one of ours: a page may have its own name lead to our address
// (DNS rebinding), and is of the same site then as far as the browser knows.
//
// Programs other than browsers send none of the headers, and are not concerned.
// That is no access control: it keeps a browser from being used against its
// user.
package browser
