package wire

import (
	"bytes"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// refusal is the reason why the input is not a valid request. Without a status
// there is no answer to give: the caller has disconnected or was too slow.
type refusal struct {
	status int
	reason string
}

func bad(reason string) *refusal { return &refusal{http.StatusBadRequest, reason} }

// read reads one complete request with its body. It uses r.Header, which must
// be empty, if it is not nil.
func (c *conn) read(r *http.Request) *refusal {
	head, refused := c.head()
	if refused != nil {
		return refused
	}
	c.asked = head
	if refused := parse(r, head); refused != nil {
		return refused
	}
	r.RemoteAddr = c.remote
	var most int64
	if r.ContentLength != 0 {
		most = c.server.MaxBody(r)
	}
	switch expected := r.Header.Get("Expect"); {
	case expected == "" || !r.ProtoAtLeast(1, 1):
	case !strings.EqualFold(expected, "100-continue"):
		return &refusal{http.StatusExpectationFailed, "the Expect header must be 100-continue"}
	case r.ContentLength != 0 && r.ContentLength <= most:
		if err := c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return &refusal{}
		}
	}
	text, err := c.body(r, most)
	c.skipLineEnds()
	switch {
	case err != nil:
		r.Body = cutBody{err}
	case len(text) == 0:
		r.Body = http.NoBody
	default:
		r.Body = &Body{text: text}
	}
	return nil
}

// skipLineEnds skips line ends before a request line, which some clients send
// after a body (RFC 9112, 2.2).
func (c *conn) skipLineEnds() {
	n := 0
	for n < len(c.in) && (c.in[n] == '\r' || c.in[n] == '\n') {
		n++
	}
	if n > 0 {
		c.consume(n)
	}
}

// head reads a request's line and headers, including the empty line at their
// end.
func (c *conn) head() (string, *refusal) {
	n := endOfHead(c.in, 0)
	if n == 0 {
		var refused *refusal
		if n, refused = c.restOfHead(); refused != nil {
			return "", refused
		}
	}
	if n > c.server.MaxHeaderBytes {
		return "", c.longHead()
	}
	head := string(c.in[:n])
	c.consume(n)
	return head, nil
}

// restOfHead reads until the head is complete, and returns its length.
func (c *conn) restOfHead() (n int, refused *refusal) {
	if c.arm(time.Now().Add(c.server.HeaderTimeout)) != nil {
		return 0, &refusal{}
	}
	defer func() {
		if c.arrived() {
			n, refused = 0, &refusal{http.StatusTooManyRequests, ""}
		}
	}()
	for n == 0 {
		if len(c.in) > c.server.MaxHeaderBytes {
			return 0, c.longHead()
		}
		from := max(0, len(c.in)-3)
		c.holds(c.held(), false)
		if c.more() != nil {
			return 0, &refusal{}
		}
		n = endOfHead(c.in, from)
	}
	return n, nil
}

func (c *conn) longHead() *refusal {
	return &refusal{http.StatusRequestHeaderFieldsTooLarge,
		fmt.Sprintf("the request line and the headers have more than %d bytes", c.server.MaxHeaderBytes)}
}

// endOfHead returns the length of the head at the start of b, or 0 if it is
// incomplete. The end is not before from. Lines may end without a CR.
func endOfHead(b []byte, from int) int {
	for i := from; ; i++ {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return 0
		}
		i += n
		switch rest := b[i+1:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return i + 2
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return i + 3
		}
	}
}

// line cuts the first line off a head. A CR elsewhere is rejected later, since
// no name, value or URL may contain one.
func line(head string) (first, rest string) {
	first, rest, _ = strings.Cut(head, "\n")
	return strings.TrimSuffix(first, "\r"), rest
}

func parse(r *http.Request, head string) *refusal {
	large := len(head) > len(buffer{})
	first, head := line(head)
	if large {
		first = strings.Clone(first) // so that only the headers keep the whole head in memory
	}
	method, target, ok := strings.Cut(first, " ")
	target, r.Proto, _ = strings.Cut(target, " ")
	r.Method, r.RequestURI = method, target
	if !ok || !httpguts.ValidHeaderFieldName(method) {
		return bad("")
	}
	if r.ProtoMajor, r.ProtoMinor, ok = http.ParseHTTPVersion(r.Proto); !ok {
		return bad("")
	}
	if r.ProtoMajor != 1 {
		return &refusal{http.StatusHTTPVersionNotSupported, "the protocol is " + r.Proto + "; this server speaks HTTP/1.1"}
	}
	if refused := parseTarget(r); refused != nil {
		return refused
	}
	if refused := parseHeader(r, head); refused != nil {
		return refused
	}
	if refused := parseHost(r); refused != nil {
		return refused
	}
	if large {
		r.Host = strings.Clone(r.Host)
	}
	keep := httpguts.HeaderValuesContainsToken(r.Header["Connection"], "keep-alive")
	r.Close = httpguts.HeaderValuesContainsToken(r.Header["Connection"], "close") || r.ProtoMinor == 0 && !keep
	return parseLength(r)
}

func parseTarget(r *http.Request) *refusal {
	raw := r.RequestURI
	authority := r.Method == http.MethodConnect && !strings.HasPrefix(raw, "/")
	if authority {
		raw = "http://" + raw
	}
	var err error
	if r.URL, err = url.ParseRequestURI(raw); err != nil {
		return bad("")
	}
	if authority {
		r.URL.Scheme = ""
	}
	return nil
}

func parseHeader(r *http.Request, lines string) *refusal {
	n := strings.Count(lines, "\n")
	if r.Header == nil {
		r.Header = http.Header{}
	}
	values := make([]string, 0, n) // one array for all values
	for {
		var l string
		if l, lines = line(lines); l == "" {
			return nil
		}
		name, value, ok := field(l)
		if !ok {
			return bad("")
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		if before, again := r.Header[name]; again {
			r.Header[name] = append(before, value)
			continue
		}
		values = append(values, value)
		r.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
}

// field splits a header line. Space around the value is not part of it.
func field(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	value = strings.Trim(value, " \t")
	return name, value, ok && httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}

// parseHost checks the Host header (RFC 9112, 3.2).
func parseHost(r *http.Request) *refusal {
	hosts := r.Header["Host"]
	delete(r.Header, "Host")
	switch {
	case len(hosts) > 1:
		return bad("too many Host headers")
	case len(hosts) == 0 && r.ProtoAtLeast(1, 1) && r.Method != http.MethodConnect:
		return bad("missing required Host header")
	case len(hosts) == 1 && !httpguts.ValidHostHeader(hosts[0]):
		return bad("malformed Host header")
	case r.URL.Host != "":
		r.Host = r.URL.Host
	case len(hosts) == 1:
		r.Host = hosts[0]
	}
	return nil
}

// parseLength determines the framing of the body. Ambiguous framing is refused
// (RFC 9112, 6.3 and 11.2).
func parseLength(r *http.Request) *refusal {
	lengths, codings := r.Header["Content-Length"], r.Header["Transfer-Encoding"]
	delete(r.Header, "Transfer-Encoding")
	switch {
	case len(codings) == 0 && len(lengths) == 0:
		return nil
	case len(codings) > 0 && len(lengths) > 0:
		return bad("both Transfer-Encoding and Content-Length are given")
	case len(codings) > 1 || len(codings) == 1 && !isChunked(codings[0]):
		return &refusal{http.StatusNotImplemented, "Transfer-Encoding must be chunked"}
	case len(codings) == 1 && !r.ProtoAtLeast(1, 1):
		return bad("Transfer-Encoding in a request of HTTP/1.0")
	case len(codings) == 1:
		r.TransferEncoding, r.ContentLength = chunkedCoding, -1
		return nil
	case len(lengths) > 1:
		return bad("Content-Length is given more than once")
	}
	n, err := strconv.ParseUint(lengths[0], 10, 63)
	if err != nil {
		return bad("Content-Length is not a valid length")
	}
	r.ContentLength = int64(n)
	return nil
}

// chunkedCoding is the only supported coding. It is never modified.
var chunkedCoding = []string{"chunked"}

// isChunked compares ASCII letters only: in Unicode the Kelvin sign folds to k.
func isChunked(coding string) bool {
	return len(coding) == len("chunked") && strings.EqualFold(coding, "chunked")
}
