package server

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"
)

// recorder is a connection that keeps what is written.
type recorder struct {
	net.Conn
	wrote    bytes.Buffer
	deadline time.Time
}

func (r *recorder) Write(b []byte) (int, error) { return r.wrote.Write(b) }

func (r *recorder) SetWriteDeadline(at time.Time) error {
	r.deadline = at
	return nil
}

// Only the very bytes that net/http writes for what it cannot parse are
// replaced; should Go word them otherwise one day, they pass as they are.
func TestOnlyTheCannedReplyIsReplaced(t *testing.T) {
	const rest = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	s := New(Options{Master: knowing{}})
	for written, replaced := range map[string]bool{
		"HTTP/1.1 400 Bad Request" + rest + "400 Bad Request":                                         true,
		"HTTP/1.1 400 Bad Request: no host" + rest + "400 Bad Request: no host":                       true,
		"HTTP/1.1 400 Bad Request" + rest:                                                             false,
		"HTTP/1.1 400 Bad Request" + rest + "400 Bad Request: other":                                  false,
		"HTTP/1.1 400 Bad Request\r\nX: y" + rest + "400 Bad Request\r\nX: y":                         false,
		"HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n\r\n{}":                false,
		"HTTP/1.1 431 Request Header Fields Too Large" + rest + "431 Request Header Fields Too Large": false,
		"HTTP/1.1 200 OK" + rest + "400 Bad Request":                                                  false,
		"": false,
	} {
		r := &recorder{}
		n, err := (&conn{Conn: r, server: s}).Write([]byte(written))
		if n != len(written) || err != nil {
			t.Errorf("%q: wrote %d, %v", written, n, err)
		}
		got := r.wrote.String()
		if (got != written) != replaced {
			t.Errorf("%q became %q", written, got)
		}
		if replaced && (!strings.Contains(got, "\r\nStout-Epoch: 7\r\n") || !strings.Contains(got, "\r\nContent-Type: application/problem+json\r\n")) {
			t.Errorf("%q became %q", written, got)
		}
		if r.deadline.IsZero() {
			t.Errorf("%q: no deadline", written)
		}
	}
}

func TestReasonOfWhatCannotBeParsedIsTold(t *testing.T) {
	s := New(Options{Master: knowing{}})
	if got := string(s.unparsable("missing required Host header")); !strings.Contains(got, `"detail":"missing required Host header"`) {
		t.Error(got)
	}
}
