// Package wire serves HTTP/1.1 to many connections whose calls are small, and
// often wait.
//
// net/http.Server keeps two goroutines and two buffers for each connection, reads
// in the background during every call in case the caller leaves, and moves
// several deadlines for each request. For a lock service that is most of what a
// call costs, and nearly all that an idle session does. Here
//
//   - a connection that waits for its next request, and a call that waits for its
//     answer, hold no buffer;
//   - a request is read whole, its body included, before its handler runs, usually
//     with one system call, and the reply is written with one;
//   - whether the caller is still there is looked at only for a call that asks,
//     through its context;
//   - a deadline is armed only where bytes are missing, and else left to fire now
//     and then.
//
// What it leaves out, because the API needs none of it: HTTP/2, TLS, trailers (they are
// read and dropped), hijacking, and replies that are sent in pieces. Where net/http
// takes what is not in RFC 9112 it is stricter; it never takes a request that
// net/http would read otherwise (FuzzRequest).
package wire
