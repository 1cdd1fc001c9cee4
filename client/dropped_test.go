package client_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
)

// A client that is dropped without Close leaves no connection open, though the
// timer that closes idle connections still runs.
func TestDroppedClient(t *testing.T) {
	closed := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"path":"/a","state":"free"}`)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	func() {
		c, err := client.Config{URLs: []string{server.URL}, OnlyURLs: true}.New() // otherwise a lookup of members keeps the client alive for a while
		must(t, err)
		must(t, second(c.ReadLock(t.Context(), "/a")))
	}()
	end := time.After(time.Minute)
	for {
		runtime.GC()
		select {
		case <-closed:
			return
		case <-end:
			t.Fatal("the connection is still open")
		case <-time.After(time.Millisecond):
		}
	}
}
