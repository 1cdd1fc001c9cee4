// Package gate decides what a replica has room for: connections, which make way for
// others when they are idle or when their caller has most of them, the spare ones for
// probes and keepalives, and counts with a bound. It also slows down addresses that send
// wrong credentials.
//
// It knows connections and who calls by a name, and nothing of what is called or of the
// answers. How a connection's bytes become requests is package wire's.
package gate
