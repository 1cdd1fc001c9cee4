package wire_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// get returns a request's head with additional headers, each with its line end.
func get(target string, headers ...string) string {
	return "GET " + target + " HTTP/1.1\r\nHost: x\r\n" + strings.Join(headers, "") + "\r\n"
}

func post(headers, body string) string {
	return "POST /p HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body
}

const end = "200 GET /last" // reply on a connection that is still usable

// Input, and the replies if the request last follows.
var framings = []struct {
	name, text string
	want       []string
}{
	{"no body", get("/a"), []string{"200 GET /a", end}},
	{"bare LF", "GET /a HTTP/1.1\nHost: x\n\n", []string{"200 GET /a", end}},
	{"close", get("/a", "Connection: foo, Close\r\n"), []string{"200 GET /a"}},
	{"a method of its own", "FOO-BAR /a HTTP/1.1\r\nHost: x\r\n\r\n", []string{"200 FOO-BAR /a", end}},

	{"length", post("Content-Length: 5\r\n", "hello"), []string{"200 POST /p hello", end}},
	{"length 0", post("Content-Length: 0\r\n", ""), []string{"200 POST /p", end}},
	{"length of a GET", get("/a", "Content-Length: 2\r\n") + "hi", []string{"200 GET /a hi", end}},
	{"length, long", post("Content-Length: 9000\r\n", strings.Repeat("x", 9000)), []string{"200 POST /p " + strings.Repeat("x", 9000), end}},
	{"length, too long", post("Content-Length: 9001\r\n", strings.Repeat("x", 9001)), []string{"200 POST /p (*http.MaxBytesError)"}},
	{"length, huge", post("Content-Length: 9223372036854775807\r\n", "x"), []string{"200 POST /p (*http.MaxBytesError)"}},
	{"length beyond 63 bits", post("Content-Length: 9223372036854775808\r\n", "x"), []string{"400 Content-Length is not a valid length"}},
	{"length +5", post("Content-Length: +5\r\n", "hello"), []string{"400 Content-Length is not a valid length"}},
	{"length -1", post("Content-Length: -1\r\n", ""), []string{"400 Content-Length is not a valid length"}},
	{"length 5,5", post("Content-Length: 5, 5\r\n", "hello"), []string{"400 Content-Length is not a valid length"}},
	{"length 0x5", post("Content-Length: 0x5\r\n", "hello"), []string{"400 Content-Length is not a valid length"}},
	{"length empty", post("Content-Length:\r\n", ""), []string{"400 Content-Length is not a valid length"}},
	{"length with a CR", post("Content-Length: 5\r\r\n", "hello"), []string{"400"}},
	{"length behind a CR", post("Content-Length:\r5\r\n", "hello"), []string{"400"}},
	{"length twice", post("Content-Length: 5\r\ncontent-length: 5\r\n", "hello"), []string{"400 Content-Length is given more than once"}},
	{"length and a space", post("Content-Length : 5\r\n", "hello"), []string{"400"}},

	{"chunks", post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"), []string{"200 POST /p hello!", end}},
	{"chunks, none", post("Transfer-Encoding: Chunked\r\n", "0\r\n\r\n"), []string{"200 POST /p", end}},
	{"chunks with extensions", post("Transfer-Encoding: chunked\r\n", "5;a=\"b\";c\r\nhello\r\n0;d\r\n\r\n"), []string{"200 POST /p hello", end}},
	{"chunks with trailers", post("Transfer-Encoding: chunked\r\nTrailer: A\r\n", "5\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n"), []string{"200 POST /p hello", end}},
	{"chunks, many", post("Transfer-Encoding: chunked\r\n", strings.Repeat("1\r\nx\r\n", 300)+"0\r\n\r\n"), []string{"200 POST /p " + strings.Repeat("x", 300), end}},
	{"chunks, as much as may be", post("Transfer-Encoding: chunked\r\n", "2328\r\n"+strings.Repeat("x", 9000)+"\r\n0\r\n\r\n"), []string{"200 POST /p " + strings.Repeat("x", 9000), end}},
	{"chunks, too much", post("Transfer-Encoding: chunked\r\n", "2329\r\n"+strings.Repeat("x", 9001)+"\r\n0\r\n\r\n"), []string{"200 POST /p (*http.MaxBytesError)"}},
	{"chunks, odd", post("Transfer-Encoding: chunked\r\n", "x\r\nhello\r\n0\r\n\r\n"), []string{"200 POST /p (*errors.errorString)"}},
	{"chunks, huge", post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\nhello\r\n0\r\n\r\n"), []string{"200 POST /p (*errors.errorString)"}},
	{"chunks that end with LF", post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\n"), []string{"200 POST /p (*errors.errorString)"}},
	{"chunks that end with CRCRLF", post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\r\n"), []string{"200 POST /p (*errors.errorString)"}},
	{"a trailer that is none", post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nGET / HTTP/1.1\r\n\r\n"), []string{"200 POST /p (*errors.errorString)"}},
	{"a trailer without end", post("Transfer-Encoding: chunked\r\n", "0\r\nA: "+strings.Repeat("x", 5000)+"\r\n\r\n"), []string{"200 POST /p (*errors.errorString)"}},
	{"trailers without end", post("Transfer-Encoding: chunked\r\n", "0\r\n"+strings.Repeat("A: b\r\n", 200)+"\r\n"), []string{"200 POST /p (*errors.errorString)"}},
	{"gzip", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), []string{"501 Transfer-Encoding must be chunked"}},
	{"chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), []string{"501 Transfer-Encoding must be chunked"}},
	{"chunKed in Kelvin", post("Transfer-Encoding: chun\u212aed\r\n", "0\r\n\r\n"), []string{"501 Transfer-Encoding must be chunked"}},
	{"both", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), []string{"400 both Transfer-Encoding and Content-Length are given"}},
	{"chunks of 1.0", "POST /p HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []string{"400 Transfer-Encoding in a request of HTTP/1.0"}},

	{"1.0", "GET /a HTTP/1.0\r\n\r\n", []string{"200 GET /a"}},
	{"1.0 kept", "GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", []string{"200 GET /a", end}},
	{"1.0 that expects", "POST /p HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", []string{"200 POST /p hi"}},
	{"1.2", "GET /a HTTP/1.2\r\nHost: x\r\n\r\n", []string{"200 GET /a", end}},
	{"2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []string{"505 the protocol is HTTP/2.0; this server speaks HTTP/1.1"}},
	{"0.9", "GET /a HTTP/0.9\r\n\r\n", []string{"505 the protocol is HTTP/0.9; this server speaks HTTP/1.1"}},
	{"no protocol", "GET /a\r\nHost: x\r\n\r\n", []string{"400"}},
	{"protocol in small letters", "GET /a http/1.1\r\nHost: x\r\n\r\n", []string{"400"}},
	{"protocol and a space", "GET /a HTTP/1.1 \r\nHost: x\r\n\r\n", []string{"400"}},

	{"continue", post("Expect: 100-Continue\r\nContent-Length: 2\r\n", "hi"), []string{"100", "200 POST /p hi", end}},
	{"continue, chunks", post("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "2\r\nhi\r\n0\r\n\r\n"), []string{"100", "200 POST /p hi", end}},
	{"continue without a body", get("/a", "Expect: 100-continue\r\n"), []string{"200 GET /a", end}},
	{"continue with too long a body", post("Expect: 100-continue\r\nContent-Length: 10000\r\n", ""), []string{"200 POST /p (*http.MaxBytesError)"}},
	{"expecting miracles", post("Expect: miracles\r\nContent-Length: 2\r\n", "hi"), []string{"417 the Expect header must be 100-continue"}},

	{"absolute target", get("http://y:80/a?b=c"), []string{"200 GET http://y:80/a?b=c", end}},
	{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", []string{"200 OPTIONS *", end}},
	{"CONNECT", "CONNECT y:80 HTTP/1.1\r\nHost: y:80\r\n\r\n", []string{"200 CONNECT y:80", end}},
	{"a target without a slash", get("a"), []string{"400"}},
	{"a target with a bare percent", get("/%"), []string{"400"}},
	{"a target with a control", get("/a\x01"), []string{"400"}},
	{"a target with a space", get("/a b"), []string{"400"}},
	{"no target", "GET  HTTP/1.1\r\nHost: x\r\n\r\n", []string{"400"}},
	{"no method", " / HTTP/1.1\r\nHost: x\r\n\r\n", []string{"400"}},
	{"odd method", "G(T / HTTP/1.1\r\nHost: x\r\n\r\n", []string{"400"}},
	{"an empty line first", "\r\n" + get("/a"), []string{"200 GET /a", end}},
	{"nothing but line ends", "\n\r\n\r", []string{end}},

	{"no host", "GET /a HTTP/1.1\r\n\r\n", []string{"400 missing required Host header"}},
	{"an empty host", "GET /a HTTP/1.1\r\nHost:\r\n\r\n", []string{"200 GET /a", end}},
	{"two hosts", get("/a", "host: x\r\n"), []string{"400 too many Host headers"}},
	{"an odd host", "GET /a HTTP/1.1\r\nHost: x y\r\n\r\n", []string{"400 malformed Host header"}},

	{"a folded header", get("/a", "A: b\r\n c: d\r\n"), []string{"400"}},
	{"a folded first header", "GET /a HTTP/1.1\r\n Host: x\r\n\r\n", []string{"400"}},
	{"a header without a name", get("/a", ": b\r\n"), []string{"400"}},
	{"a header without a colon", get("/a", "A\r\n"), []string{"400"}},
	{"a header with a NUL", get("/a", "A: b\x00\r\n"), []string{"400"}},
	{"a header with a CR", get("/a", "A: b\rB: c\r\n"), []string{"400"}},
	{"a line of CR", get("/a", "\r\r\n"), []string{"400"}},

	{"a head as long as may be", longHead(1000), []string{"200 GET /a", end}},
	{"a head too long by one", longHead(1001), []string{"431 the request line and the headers have more than 1000 bytes"}},
	{"a head too long by far", longHead(9000), []string{"431 the request line and the headers have more than 1000 bytes"}},
	{"a line without end", "GET /" + strings.Repeat("a", 9000), []string{"431 the request line and the headers have more than 1000 bytes"}},
}

func longHead(n int) string {
	short := len(get("/a", "A: \r\n"))
	return get("/a", "A: ", strings.Repeat("x", n-short), "\r\n")
}

func TestFraming(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		h := start(t, listen, echo)
		for _, f := range framings {
			for _, piece := range []int{1, 7, len(f.text) + len(last)} {
				t.Run(fmt.Sprintf("%s/%d", f.name, piece), func(t *testing.T) {
					c := h.connect(t)
					c.send(split(f.text+last, piece)...)
					for _, want := range f.want {
						c.want(want)
					}
					c.wantEnd()
				})
			}
		}
	})
}

// The bytes of replies on the wire.
func TestReplies(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		h := start(t, listen, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", "today")
			switch r.URL.Path {
			case "/none":
				w.WriteHeader(http.StatusNoContent)
				fmt.Fprint(w, "no body has room")
			case "/empty":
			case "/close":
				w.Header().Set("Connection", "close")
			case "/split":
				w.Header().Set("A", "b\r\nC: d")
			default:
				fmt.Fprint(w, "hello")
				w.WriteHeader(http.StatusTeapot) // too late
			}
		})
		for _, r := range []struct{ request, want string }{
			{get("/"), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: today\r\n\r\nhello"},
			{"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: today\r\n\r\n"},
			{get("/none"), "HTTP/1.1 204 No Content\r\nDate: today\r\n\r\n"},
			{get("/empty"), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: today\r\n\r\n"},
			{get("/split"), "HTTP/1.1 200 OK\r\nA: b  C: d\r\nContent-Length: 0\r\nDate: today\r\n\r\n"},
			{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\nDate: today\r\n\r\nhello"},
			{get("/close"), "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\nDate: today\r\n\r\n"},
		} {
			c := h.connect(t)
			c.send(r.request, last)
			got := make([]byte, len(r.want))
			if n, err := io.ReadFull(c, got); string(got) != r.want {
				t.Errorf("%q: %q, %v, want %q", r.request, got[:n], err, r.want)
			}
			c.Close()
		}
	})
}
