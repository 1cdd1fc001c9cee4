// Package gate enforces a replica's limits. It bounds the connections: an idle
// connection, or one of the caller with most of them, is closed for a new one. It
// also has the spare connections for probes and keepalives, and counters with a
// bound. It slows down addresses that send wrong credentials.
//
// It knows connections and their callers' names, but neither the calls nor the
// answers. Package wire turns the bytes of a connection into requests.
package gate
