package wire

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
)

// FuzzAnswer compares the reading of an answer here with that of net/http.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		ok, created, ok + created, "", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n" + created, "HTTP/1.1 200\r\n\r\nbody", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nA\r\n\r\n",
		"HTTP/1.1 200 OK\r\n A: folded\r\n\r\n", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 99 Low\r\n\r\n", "HTTP/1.1 200 OK\r\nA :b\r\n\r\n",
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		p := newPeer(t)
		serve := func() {
			l := <-p.in
			l.hear()
			_, _ = l.Write(answer)
			_ = l.CloseWrite()
			_, _ = io.Copy(io.Discard, l)
			l.Close()
		}
		go serve()
		ours := <-p.start(t.Context(), new(Pool), http.MethodGet)

		transport := &http.Transport{DisableCompression: true}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		go serve()
		theirs, err := transport.RoundTrip(req)
		var body []byte
		if err == nil && theirs.StatusCode == http.StatusSwitchingProtocols {
			theirs.Body.Close()
			return // this package refuses it
		}
		if err == nil {
			body, err = io.ReadAll(theirs.Body)
			theirs.Body.Close()
		}
		if (err == nil) != (ours.err == nil) {
			t.Fatalf("net/http: %v; here: %v", err, ours.err)
		}
		if err != nil {
			return
		}
		if theirs.StatusCode != ours.StatusCode || string(body) != string(ours.Body) {
			t.Errorf("net/http: %d %q; here: %d %q", theirs.StatusCode, body, ours.StatusCode, ours.Body)
		}
		sameHeader(t, theirs.Header, ours.Header)
	})
}

// FuzzPlain compares answers that readPlain accepts with http.ReadResponse,
// which must read the same.
func FuzzPlain(f *testing.F) {
	for _, answer := range []string{
		ok, created, ok + created, "HTTP/1.1 423 Locked\r\nContent-Type: application/json\r\nStout-Master:\thttp://a:1 \r\ncontent-length:\t02 \r\n\r\n{}",
		"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 103 Hints\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n folded\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\nA: b\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b",
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		p, ok := readPlain(answer)
		if !ok {
			return
		}
		in := bytes.NewReader(answer)
		buffered := bufio.NewReader(in)
		resp, err := http.ReadResponse(buffered, nil)
		if err != nil {
			t.Fatalf("net/http: %v; here: %+v", err, p)
		}
		if at := len(answer) - in.Len() - buffered.Buffered(); at != p.size {
			t.Errorf("net/http: the head has %d bytes; here: %d", at, p.size)
		}
		if resp.StatusCode != p.status || resp.ContentLength != int64(p.length) || resp.Close || resp.Uncompressed {
			t.Errorf("net/http: %+v; here: %+v", resp, p)
		}
		sameHeader(t, resp.Header, Header(answer[p.fields:p.size-2]))
	})
}

// sameHeader compares a header with its lines here, as a whole and field by
// field.
func sameHeader(t *testing.T, want http.Header, got Header) {
	t.Helper()
	lines := textproto.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(got), strings.NewReader("\r\n"))))
	parsed, err := lines.ReadMIMEHeader()
	if err != nil {
		t.Fatalf("%q: %v", got, err)
	}
	var a, b strings.Builder
	_ = want.Write(&a)
	_ = http.Header(parsed).Write(&b)
	if a.String() != b.String() {
		t.Errorf("net/http: %q; here: %q", a.String(), b.String())
	}
	for name := range parsed { // the lines have valid names only
		if got.Get(name) != want.Get(name) {
			t.Errorf("%s: %q; here: %q", name, want.Get(name), got.Get(name))
		}
	}
}
