package stream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// once is a watch with one event.
type once struct{ size int }

func (o once) Read(after uint64, _, _ int) ([]lockapi.CellEvent, uint64, error) {
	if after > 0 {
		return nil, after, nil
	}
	return []lockapi.CellEvent{{Revision: 1, Type: lockapi.EventFileChanged, Path: "/" + strings.Repeat("x", o.size)}}, 1, nil
}

func (once) Ready() <-chan struct{} { return nil }

// TestSlowStreamIsCutOffForOthers: if a stream that is slow to send has used up
// the room of all streams, another one gets its event soon, and the slow one
// ends.
func TestSlowStreamIsCutOffForOthers(t *testing.T) {
	const most = 16 << 20 // the system accepts only some of it
	stopping, began, ended := make(chan struct{}), make(chan struct{}, 1), make(chan string, 2)
	shared := New(stopping, func(float64) {}, most)
	s := &wire.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			out, size := w.(Reply), most*9/10
			if r.URL.Path == "/quick" {
				size = most / 3
			}
			out.Flush()
			began <- struct{}{}
			_ = (&Watch{Shared: shared, Events: once{size}, Conn: wire.ConnOf(r.Context())}).Stream(r.Context(), out, "cell", false, nil)
			ended <- r.URL.Path
		}),
		HeaderTimeout: time.Hour, BodyTimeout: time.Hour, WriteTimeout: time.Hour, IdleTimeout: time.Hour, MaxHeaderBytes: 1 << 10,
		Waits: func(net.Conn) {}, Calls: func(net.Conn) bool { return true },
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	defer s.Close()
	defer close(stopping)
	open := func(path string) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-began
		return c
	}
	slow := open("/slow")
	if _, err := slow.Read(make([]byte, 1<<10)); err != nil {
		t.Fatal(err)
	}
	for held, began := 0, time.Now(); held == 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the slow stream holds no event")
		}
		shared.bytes.mu.Lock()
		held = shared.bytes.held.Len()
		shared.bytes.mu.Unlock()
	}
	quick := open("/quick")
	resp, err := http.ReadResponse(bufio.NewReader(quick), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, most/3); err != nil {
		t.Fatalf("the quick stream got no event: %v", err)
	}
	if path := <-ended; path != "/slow" {
		t.Errorf("%s has ended", path)
	}
}
