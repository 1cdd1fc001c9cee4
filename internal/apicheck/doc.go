// Package apicheck holds a running server against its OpenAPI document. A
// Document is the document, loaded and validated; a Checker is an
// http.RoundTripper that validates every request and reply that goes through
// it; Steps are a list of calls that exercises each operation of the API once
// or more, on a fake as on a real cell.
//
// It is test support: nothing that is shipped imports it.
package apicheck
