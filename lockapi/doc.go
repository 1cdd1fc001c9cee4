// Package lockapi is the HTTP contract of Stout, version 1: the types on the
// wire, their bounds, the error codes, and the rules for paths and sequencers.
// The server and the Go client both use it.
//
// A Call is one type per call: its fields state where each travels (path, query,
// header, body), and Validate checks them. Package master has a row for each with its
// right and its function, package lockapi/server its route. What a caller may do, and
// what a call does, is not here.
//
// The package imports only the standard library. Durations on the wire are whole
// milliseconds in fields with the suffix MS; times are RFC 3339 in UTC; tokens stay
// below 2^53, so that every JSON reader can hold them exactly.
//
// Names follow the Chubby paper (Burrows, OSDI 2006): cell, replica, master,
// epoch, lease, session, keepalive, handle, sequencer, lock-delay.
package lockapi
