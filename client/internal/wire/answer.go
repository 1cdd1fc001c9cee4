package wire

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// Answer is an answer, in memory.
type Answer struct {
	StatusCode int
	Header     Header
	Body       []byte
	Last       bool // of its connection
}

// Header is the lines of an answer's header, each with its line end.
type Header []byte

// Get returns the value of the first field with that name, or "" without one.
func (h Header) Get(name string) string {
	for rest := []byte(h); len(rest) > 0; {
		var line []byte
		line, rest = cutLine(rest)
		if field, value, _ := bytes.Cut(line, colon); named(field, name) {
			return string(bytes.Trim(value, " \t"))
		}
	}
	return ""
}

var (
	colon   = []byte(":")
	lineEnd = []byte("\r\n")
)

func cutLine(b []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(b, lineEnd)
	return line, rest
}

// named reports whether a field has that name, ignoring case.
func named(field []byte, name string) bool {
	return len(field) == len(name) && strings.EqualFold(string(field), name)
}

// ReadAnswer reads the rest of an answer after net/http has read its head. It
// appends the header and at most most bytes of the body to buf.
func ReadAnswer(resp *http.Response, buf *bytes.Buffer, most int64) (Answer, error) {
	start := buf.Len()
	_ = resp.Header.Write(buf) // to memory
	body := buf.Len()
	makeRoom(buf, min(resp.ContentLength, most))
	_, err := buf.ReadFrom(io.LimitReader(resp.Body, most))
	return Answer{resp.StatusCode, Header(buf.Bytes()[start:body]), buf.Bytes()[body:], resp.Close}, err
}

// makeRoom prepares buf for a large answer of n bytes, if n is not too large to
// believe. Otherwise buf would copy the answer several times while it grows.
func makeRoom(buf *bytes.Buffer, n int64) {
	if n > 4<<10 && n <= 1<<20 {
		buf.Grow(int(n) + bytes.MinRead)
	}
}

// plain is the head of a plain answer, as replicas send it: in HTTP/1.1, not
// interim, with a body of a known length, on a connection that remains open.
type plain struct {
	status int
	fields int // where the fields begin
	size   int // of the head
	length int // of the body
}

// readPlain reads the head at the start of b. ok is true only if the head is
// complete and certainly a plain answer's; net/http reads all others.
func readPlain(b []byte) (p plain, ok bool) {
	const version, code = "HTTP/1.1 ", "200"
	line, rest := cutLine(b)
	if len(line) <= len(version+code) || string(line[:len(version)]) != version || line[len(version+code)] != ' ' || !isText(line) {
		return p, false
	}
	p.status, ok = number(line[len(version):len(version+code)])
	if !ok || p.status < 200 || p.status == http.StatusNoContent || p.status == http.StatusNotModified {
		return p, false
	}
	p.fields, p.length = len(b)-len(rest), -1
	for len(rest) > 0 {
		line, rest = cutLine(rest)
		if len(line) == 0 {
			p.size = len(b) - len(rest)
			return p, p.length >= 0
		}
		name, value, found := bytes.Cut(line, colon)
		if !found || !isName(name) || !isText(value) {
			return p, false
		}
		switch {
		case named(name, "Content-Length"):
			if p.length >= 0 {
				return p, false
			}
			if p.length, ok = number(bytes.Trim(value, " \t")); !ok {
				return p, false
			}
		case named(name, "Transfer-Encoding"), named(name, "Connection"), named(name, "Trailer"), named(name, "Pragma"):
			return p, false
		}
	}
	return p, false
}

// number reads a small number of digits only.
func number(b []byte) (n int, ok bool) {
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = 10*n + int(d-'0')
	}
	return n, len(b) >= 1 && len(b) <= 9
}

// isText reports whether b is printable ASCII and tabs.
func isText(b []byte) bool {
	for _, c := range b {
		if (c < ' ' && c != '\t') || c > '~' {
			return false
		}
	}
	return true
}

// isName reports whether b is a field's name, of letters, digits and hyphens.
func isName(b []byte) bool {
	for _, c := range b {
		if c != '-' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return len(b) > 0
}
