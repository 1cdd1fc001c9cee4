// Package lockapi is the HTTP contract of Stout, version 1: the types that go
// over the wire, their bounds, the error codes, and the rules for paths and
// sequencers. The server and the Go client are both written against it.
//
// It imports the standard library only, so a program that needs just the
// contract pays for nothing else. Durations on the wire are whole milliseconds
// in fields whose names end in MS; times are RFC 3339 in UTC; tokens stay below
// 2^53, so that every JSON reader can hold one.
//
// Names follow the Chubby paper (Burrows, OSDI 2006): cell, replica, master,
// epoch, lease, session, keepalive, handle, sequencer, lock-delay.
package lockapi
