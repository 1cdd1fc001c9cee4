package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// A call and the contexts derived from it end when the caller disconnects, in
// any way.
func TestCallersThatLeave(t *testing.T) {
	type leave func(net.Conn)
	ways := map[string]leave{
		"close":      func(c net.Conn) { c.Close() },
		"half-close": func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() },
		"reset":      func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); c.Close() },
	}
	derived := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"itself": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
		"timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
		"value": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(context.WithValue(ctx, new(int), 1))
		},
	}
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		entered, gone := make(chan struct{}), make(chan error)
		h := start(t, listen, func(_ http.ResponseWriter, r *http.Request) {
			ctx, cancel := derived[r.Header.Get("Derive")](r.Context())
			defer cancel()
			done := ctx.Done()
			if n := goroutines("context.(*cancelCtx).propagateCancel"); n > 0 {
				t.Errorf("%d goroutines pass cancellation on", n)
			}
			if err := ctx.Err(); err != nil {
				t.Errorf("before the caller left: %v", err)
			}
			entered <- struct{}{}
			<-done
			gone <- errors.Join(ctx.Err(), r.Context().Err())
		})
		for derive := range derived {
			for way, leave := range ways {
				c := h.connect(t)
				if _, tcp := c.Conn.(*net.TCPConn); !tcp && way != "close" {
					continue
				}
				c.send(get("/a", "Derive: "+derive+"\r\n"))
				<-entered
				leave(c.Conn)
				if err := <-gone; err.Error() != "context canceled\ncontext canceled" {
					t.Errorf("%s, %s: %v", derive, way, err)
				}
			}
		}
	})
}

// A long call does not end before its caller disconnects, its reply arrives,
// and the connection remains usable.
func TestCallsOutlastEveryDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, pipe, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/wait" {
				select {
				case <-r.Context().Done():
					t.Error("ended")
				case <-time.After(time.Hour):
				}
			}
			echo(w, r)
		})
		c := h.connect(t)
		for range 3 {
			c.send(get("/wait"))
			c.want("200 GET /wait")
			time.Sleep(149 * time.Second)
			c.send(get("/quick"))
			c.want("200 GET /quick")
		}
		c.Close()
	})
}

// The same holds for real sockets with the system's deadlines. A slow machine
// needs a longer one, or no call begins.
func TestCallsOutlastEveryDeadlineOfSockets(t *testing.T) {
	for d := 20 * time.Millisecond; d < time.Minute; d *= 2 {
		var entered atomic.Bool
		h := start(t, tcp, func(w http.ResponseWriter, r *http.Request) {
			entered.Store(true)
			select {
			case <-r.Context().Done():
				t.Error("ended")
			case <-time.After(5 * d):
			}
			echo(w, r)
		}, func(s *wire.Server) { s.IdleTimeout, s.HeaderTimeout = d, d })
		c := h.connect(t)
		c.send(get("/a"))
		got, _ := c.next(http.MethodGet)
		if got == "" && !entered.Load() {
			h.Close()
			continue
		}
		if got != "200 GET /a" {
			t.Fatalf("the reply is %q", got)
		}
		c.wantEnd()
		return
	}
	t.Fatal("no call begins")
}

// A context ends when the handler has returned, for every user and at any time.
func TestContextsEndWithTheirCall(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		requests := make(chan *http.Request, 1)
		h := start(t, listen, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/asked":
				r.Context().Done()
			case "/panic":
				requests <- r
				panic(http.ErrAbortHandler)
			}
			requests <- r
		})
		for _, path := range []string{"/asked", "/unasked", "/panic"} {
			c := h.connect(t)
			c.send(get(path))
			r := <-requests
			c.next(http.MethodGet)
			if path == "/panic" {
				c.wantEnd()
			}
			if err := r.Context().Err(); err != context.Canceled {
				t.Errorf("%s: %v", path, err)
			}
			<-r.Context().Done()
			child, cancel := context.WithTimeout(r.Context(), time.Hour)
			<-child.Done()
			cancel()
			if _, limited := r.Context().Deadline(); limited || r.Context().Value(t) != nil {
				t.Errorf("%s: a deadline or a value", path)
			}
			c.Close()
		}
	})
}

// Any goroutine may call Done at any time, even while the handler returns and
// the next request of the connection is read.
func TestDoneWhileTheHandlerReturns(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		var asking sync.WaitGroup
		h := start(t, listen, func(w http.ResponseWriter, r *http.Request) {
			for range 2 {
				asking.Go(func() { <-r.Context().Done() })
			}
			echo(w, r)
		})
		c := h.connect(t)
		for i := range 1000 {
			path := fmt.Sprintf("/%d", i)
			c.send(get(path))
			c.want("200 GET " + path)
		}
		asking.Wait()
		c.Close()
	})
}

// Close ends the contexts of its connections, even if reading has stopped
// because the caller sent too much.
func TestCloseEndsContexts(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		for _, more := range []string{"", "G"} {
			w := newWaiting()
			h := start(t, listen, w.answer)
			c := h.connect(t)
			c.send(get("/wait") + more)
			<-w.entered
			h.Close()
			if err := <-w.gone; err != context.Canceled {
				t.Errorf("%v", err)
			}
			if _, err := io.ReadAll(c); err != nil && errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
	})
}
