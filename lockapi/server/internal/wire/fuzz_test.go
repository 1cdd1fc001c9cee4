package wire

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// fed is a connection on which the text arrives in pieces of some size.
type fed struct {
	net.Conn
	text  []byte
	piece int
}

func (f *fed) Read(b []byte) (int, error) {
	if len(f.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b, f.text[:min(f.piece, len(f.text))])
	f.text = f.text[n:]
	return n, nil
}

func (f *fed) Write(b []byte) (int, error)      { return len(b), nil }
func (f *fed) RemoteAddr() net.Addr             { return nil }
func (f *fed) SetReadDeadline(time.Time) error  { return nil }
func (f *fed) SetWriteDeadline(time.Time) error { return nil }

// Every accepted request is the same request to net/http and ends with the same
// byte. Bytes that a server before or behind this one treats as a body are
// therefore never a request to the other.
func FuzzRequest(f *testing.F) {
	s := &Server{
		HeaderTimeout: time.Hour, BodyTimeout: time.Hour, WriteTimeout: time.Hour, IdleTimeout: time.Hour,
		MaxHeaderBytes: 1 << 10, MaxBody: func(*http.Request) int64 { return 1 << 10 },
		Waits: func(net.Conn) {},
	}
	f.Fuzz(func(t *testing.T, text []byte, piece byte) {
		conn := &fed{text: text, piece: 1 + int(piece)*8}
		c := newConn(s, conn)
		defer c.release()
		unread := bytes.NewReader(text)
		theirs := bufio.NewReaderSize(unread, 1<<16)
		for len(c.in) > 0 || c.wait() == nil {
			if c.skipLineEnds(); len(c.in) == 0 {
				continue
			}
			skipLineEnds(theirs)
			var ours http.Request
			if c.read(&ours) != nil {
				return
			}
			if _, cut := ours.Body.(cutBody); cut {
				return
			}
			r, err := http.ReadRequest(theirs)
			if err != nil && strings.Contains(err.Error(), "bad trailer key") {
				return // announced trailers, which are dropped regardless of their names
			}
			if err != nil {
				t.Fatalf("%+v was taken: %v", ours, err)
			}
			compare(t, &ours, r)
			n, m := len(text)-len(conn.text)-len(c.in), len(text)-unread.Len()-theirs.Buffered()
			if n < m || len(bytes.Trim(text[m:n], "\r\n")) > 0 {
				t.Fatalf("it ends at byte %d, to net/http at %d", n, m)
			}
		}
	})
}

// skipLineEnds skips the line ends before a request, as net/http does not.
func skipLineEnds(r *bufio.Reader) {
	for {
		b, err := r.Peek(1)
		if err != nil || b[0] != '\r' && b[0] != '\n' {
			return
		}
		_, _ = r.Discard(1)
	}
}

func compare(t *testing.T, ours, theirs *http.Request) {
	t.Helper()
	type comparable struct {
		Method, URI, Proto, Host string
		URL                      any
		Length                   int64
		Codings                  int
		Close                    bool
		Body                     string
	}
	of := func(r *http.Request) comparable {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatalf("the body of %+v: %v", r, err)
		}
		return comparable{r.Method, r.RequestURI, r.Proto, r.Host, r.URL, r.ContentLength, len(r.TransferEncoding), r.Close, string(body)}
	}
	if a, b := of(ours), of(theirs); !reflect.DeepEqual(a, b) {
		t.Fatalf("%+v, to net/http %+v", a, b)
	}
	delete(ours.Header, "Trailer")
	delete(theirs.Header, "Trailer")
	if p := ours.Header["Pragma"]; len(p) > 0 && p[0] == "no-cache" && ours.Header["Cache-Control"] == nil {
		delete(theirs.Header, "Cache-Control") // added by net/http
	}
	if !maps.EqualFunc(ours.Header, theirs.Header, func(a, b []string) bool { return reflect.DeepEqual(a, b) }) {
		t.Fatalf("the headers are %q, to net/http %q", ours.Header, theirs.Header)
	}
}
