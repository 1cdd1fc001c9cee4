// Package wire serves HTTP/1.1, with TLS or without, to many connections with
// small calls that often wait.
//
// net/http.Server keeps two goroutines and two buffers for each connection.
// During every call it reads in the background in case the caller disconnects,
// and it moves several deadlines for each request. For a lock service that is
// most of the cost of a call, and nearly the whole cost of an idle session. In
// this package
//
//   - a connection that waits for its next request, and a call that waits for its
//     answer, hold no buffer (under TLS: one, in addition to crypto/tls);
//   - a request is read completely, including its body, before its handler runs,
//     usually with one system call, and the reply is written with one;
//   - the server watches for a disconnect only if the handler asks, through the
//     context of its call;
//   - a deadline is armed only if bytes are missing, and otherwise left to fire
//     now and then.
//
// # Valid requests
//
// All input from the network is read in four places: head and parse
// (request.go), the body (body.go), the handshake (tls.go), and bytes that
// follow a call under way (watch.go). The rule is RFC 9112. A message that can
// be read in two ways is refused, because a proxy before this server could
// frame it differently. The connection is closed then, so that no request can
// be smuggled after it.
//
//   - Content-Length and Transfer-Encoding together, either of them twice, a length
//     that is not plain digits ("+5", "5, 5", empty): 400. A coding other than one
//     "chunked", in ASCII: 501. A coding in HTTP/1.0: 400.
//   - Chunks are as strict as net/http's, up to CRLF after the last one and around
//     each trailer. Trailers are dropped and never become headers.
//   - A header line that begins with space (obs-fold), space before the colon, a
//     name that is not a token, a value with a control character, a CR that does
//     not end a line: 400. Lines of a head may end with a bare LF, as in net/http
//     and RFC 9112, 2.2; a line has no other end.
//   - Host missing in HTTP/1.1, given twice, or malformed: 400. In a URL with a
//     host (absolute-form) that host counts, RFC 9112, 3.2.2.
//   - HTTP/2 and others: 505. Upgrades are ignored; Expect is 100-continue or 417.
//   - A body that did not arrive completely (too long, too late, malformed) gives
//     the handler an error when it reads, and the reply is the connection's last.
//
// Handlers check the rest: escapes in the URL, the names of this host, methods
// and media types.
//
// # Limits of a connection
//
// Connections can make the server keep this much and no more. All times are
// fields of Server. The caller of Serve bounds the number of connections: the
// server calls Waits when a connection starts to wait, and Calls before each
// call.
//
//   - Time: HeaderTimeout for the TLS handshake, again for the first request, and
//     for each head from its first byte; BodyTimeout for a body; IdleTimeout
//     between requests; WriteTimeout for each 64 KiB of a reply, and for each
//     piece. A trickle of bytes does not extend them.
//   - A head has at most MaxHeaderBytes, a body as much as MaxBody permits on its
//     route. Memory for it is allocated as it arrives, not as it is announced.
//   - Incomplete requests, including handshakes and bytes sent during a call, have
//     MaxHalfBytes for all connections together; beyond that the oldest is dropped.
//     During a call a connection may send MaxHeaderBytes more; then the call has
//     5 s to end.
//   - Unread replies have MaxUnreadBytes together; beyond that the oldest is cut
//     off. A reply in pieces keeps at most 32 KiB at a time, however much the
//     handler writes.
//   - TLS keeps for each connection up to 16 KiB of an incomplete record, and the
//     buffer into which it was read. The number of connections bounds that.
//
// # Replies
//
// A reply is written with its length after its handler has returned. A handler
// that flushes (http.Flusher, http.ResponseController) sends its output in
// pieces: chunked for HTTP/1.1, up to the connection's end for HTTP/1.0, or
// with the Content-Length that it set. Flush blocks while the caller does not
// read, and fails after WriteTimeout. That ends the request's context, as does
// a disconnect between two pieces.
//
// Only a handler that returns completes such a reply. After a panic, an error,
// or too few bytes the connection is closed, so that the caller notices that
// something is missing. Shutdown waits for handlers, so a streaming handler has
// to end by itself then. Handlers choose the names of headers; a line end in a
// value is written as a space.
//
// # Not supported
//
// The API needs no HTTP/2, upgrades, hijacking, trailers of replies, or 1xx
// answers other than 100. The standard library reads URLs (net/url), versions
// and names of headers (net/http, net/textproto) and chunks
// (net/http/httputil), writes headers (net/http) and speaks TLS (crypto/tls).
// As in net/http, golang.org/x/net/http/httpguts checks names, values and
// hosts. If net/http accepts something that RFC 9112 does not, this package is
// stricter.
//
// # Tests
//
//   - FuzzRequest feeds any bytes, in pieces of any size, to this package and to
//     net/http. A request accepted here is the same request there, with the same
//     body, and ends with the same byte. FuzzPieces lets net/http's client read
//     what handlers write and flush. Both run in every test, and for ten minutes
//     each with `make fuzz-long`.
//   - framing_test.go has a row for each refusal above. It runs over TCP, over a
//     net.Conn that has only its methods, and over TLS; the input is sent whole and
//     a byte at a time.
//   - deadline_test.go, half_test.go, stream_test.go and tls_test.go check every
//     bound of time and memory, in virtual time. leaving_test.go combines every way
//     to disconnect with everything that may be sent before. Each test fails if a
//     goroutine, a connection or a counted byte is left.
//   - The tests of lockapi/server run the whole API over this package, and over TLS.
package wire
