package wire

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// FuzzAnswer compares what an answer means here with what it means to net/http.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		ok, created, ok + created, "", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n" + created, "HTTP/1.1 200\r\n\r\nbody", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nA\r\n\r\n",
		"HTTP/1.1 200 OK\r\n A: folded\r\n\r\n", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 99 Low\r\n\r\n",
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
			return // refused here
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
		if theirs.StatusCode != ours.resp.StatusCode || string(body) != ours.body {
			t.Errorf("net/http: %d %q; here: %d %q", theirs.StatusCode, body, ours.resp.StatusCode, ours.body)
		}
		var a, b strings.Builder
		_ = theirs.Header.Write(&a)
		_ = ours.resp.Header.Write(&b)
		if a.String() != b.String() {
			t.Errorf("net/http: %q; here: %q", a.String(), b.String())
		}
	})
}
