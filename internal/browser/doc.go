// Package browser decides whether the API accepts a call from the origin that a
// browser gives for it.
//
// A web page can send requests to any address that its visitor can reach,
// including a cell on the visitor's network or machine. The browser keeps the
// page from reading the answer, but not from sending the request. Two headers
// name the origin of the page, and Host names the server as the browser knows
// it. The policy refuses calls that change something and come from another
// site's page. It also refuses calls by a name that is not one of ours. A page
// may make its own name resolve to our address (DNS rebinding), and then counts
// as the same site for the browser.
//
// Other programs send none of these headers and are not affected. This is not
// access control: it prevents a browser from being used against its user.
package browser
