// Package apicheck checks a running server against its OpenAPI document. A
// Document is the loaded and validated document. A Checker is an
// http.RoundTripper that validates every request and reply. Steps is a list of
// calls that use each operation of the API at least once, on a fake or a real
// cell.
//
// It is test support: no released program imports it.
package apicheck
