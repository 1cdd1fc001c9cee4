// Package wire serves HTTP/1.1, with TLS or without, to many connections whose
// calls are small, and often wait.
//
// net/http.Server keeps two goroutines and two buffers for each connection,
// reads in the background during every call in case the caller leaves, and
// moves several deadlines for each request. For a lock service that is most of
// what a call costs, and nearly all that an idle session does. Here
//
//   - a connection that waits for its next request, and a call that waits for its
//     answer, hold no buffer (under TLS: one, besides those of crypto/tls);
//   - a request is read whole, its body included, before its handler runs, usually
//     with one system call, and the reply is written with one;
//   - whether the caller is still there is looked at only for a call that asks,
//     through its context;
//   - a deadline is armed only where bytes are missing, and else left to fire now
//     and then.
//
// # What is a request
//
// All that comes from the network is read in four places: head and parse
// (request.go), the body (body.go), the handshake (tls.go) and what is sent
// behind a call (watch.go). The rule is RFC 9112, and of two ways to read a
// message neither: what a proxy before this server could frame otherwise is
// refused, and the connection closed, so that nothing can be smuggled behind
// it.
//
//   - Content-Length and Transfer-Encoding together, either of them twice, a length
//     that is not plain digits ("+5", "5, 5", none): 400. A coding other than one
//     "chunked", in ASCII: 501. A coding in HTTP/1.0: 400.
//   - Chunks are as strict as net/http's, up to CRLF behind the last one and around each
//     trailer. Trailers are dropped: none becomes a header.
//   - A header line that begins with space (obs-fold), space before the colon, a name
//     that is no token, a value with a control character, a CR that ends no line: 400.
//     Lines of a head may end with a bare LF, as for net/http and RFC 9112, 2.2; nothing
//     else counts as the end of one.
//   - Host missing in HTTP/1.1, given twice, or not a host: 400. In a URL with a host
//     (absolute-form) that one counts, RFC 9112, 3.2.2.
//   - HTTP/2 and others: 505. Upgrades are not answered; Expect is 100-continue or 417.
//   - A body that did not arrive whole (too long, too late, malformed) is told to the
//     handler by an error when it is read, and the reply is the connection's last.
//
// What a request says is left to those who know: the URL's escapes, names of
// hosts that are ours, methods, media types.
//
// # What a connection may take
//
// Whoever connects can make the server keep this much and no more. All times
// are of Server; the bounds on the number of connections are those of who calls
// Serve, which is told of each that waits (Waits) and asked before each call
// (Calls).
//
//   - Time: HeaderTimeout for the handshake of TLS, again for the first request, and for
//     each head from its first byte; BodyTimeout for a body; IdleTimeout between
//     requests; WriteTimeout for each 64 KiB of a reply, and for each piece. A trickle
//     moves none of them.
//   - A head has MaxHeaderBytes, a body what MaxBody says of its route. Memory for it
//     is taken as it arrives, not as it is announced.
//   - What has arrived in part, handshakes and what is sent behind a call included, has
//     MaxHalfBytes for all connections together; the oldest of it goes. Behind a call
//     that is under way a connection may send MaxHeaderBytes; then the call has 5 s.
//   - Replies that nobody reads have MaxUnreadBytes together; the oldest of them goes.
//     Of a reply in pieces 32 KiB are kept at a time, however much a handler writes.
//   - TLS keeps up to 16 KiB of a record that has not arrived whole, and what it read it
//     into, for each connection: that is bounded by the number of connections.
//
// # Replies
//
// A reply is written when its handler has returned, with its length. A handler
// that flushes (http.Flusher, http.ResponseController) sends what it wrote in
// pieces: chunked for HTTP/1.1, up to the connection's end for HTTP/1.0, or by
// the Content-Length that it gave. Flush blocks while the caller does not read,
// and fails after WriteTimeout; the request's context is done then, as when the
// caller leaves between two pieces. Only a handler that returns ends such a
// reply in good order: after a panic, an error, or too few bytes the connection
// is cut off, and the caller sees that something is missing. Shutdown waits for
// handlers, so one that streams has to end by itself then. Names of headers are
// the handlers' own; a line end in a value is written as space.
//
// # What is not here
//
// The API needs no HTTP/2, no upgrade, no hijacking, no trailers of replies and
// no answers of status 1xx but 100. Code of the standard library reads URLs
// (net/url), versions and names of headers (net/http, net/textproto), chunks
// (net/http/httputil), writes headers (net/http) and speaks TLS (crypto/tls);
// what may be in a name, a value or a host is asked of
// golang.org/x/net/http/httpguts, as net/http does. Where net/http takes what
// is not in RFC 9112 this package is stricter.
//
// # How it is tested
//
//   - FuzzRequest reads any bytes, in pieces of any size, beside net/http: what is taken
//     here is the same request there, with the same body, and ends with the same byte.
//     FuzzPieces has net/http's client read what handlers write and flush. Both run in
//     every test, and for ten minutes each with `make fuzz-long`.
//   - framing_test.go has a row for each refusal above, and runs over TCP, over a
//     net.Conn that has only its methods, and over TLS; sent whole and a byte at a time.
//   - deadline_test.go, half_test.go, stream_test.go and tls_test.go count every
//     bound of time and memory, in virtual time; leaving_test.go has every way to leave with
//     every thing that may be sent before. Each test fails where a goroutine, a
//     connection or a byte that is counted is left.
//   - The tests of lockapi/server run the whole API over it, and over TLS.
package wire
