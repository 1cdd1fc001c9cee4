package wire_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// Shutdown closes waiting connections, lets calls under way be answered, and
// accepts no more.
func TestShutdown(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		var begun atomic.Int64
		w := newWaiting()
		h := start(t, listen, func(rw http.ResponseWriter, r *http.Request) {
			begun.Add(1)
			w.answer(rw, r)
		})
		fresh, idle, headed, bodied, under, ahead := h.connect(t), h.connect(t), h.connect(t), h.connect(t), h.connect(t), h.connect(t)
		idle.send(get("/a"))
		idle.want("200 GET /a")
		headed.send("DELETE /half HTT")
		bodied.send(post("Content-Length: 10\r\n", "half"))
		under.send(get("/wait"))
		ahead.send(get("/wait") + get("/too-late"))
		<-w.entered
		<-w.entered
		waitFor(t, "all are open", func() bool { return h.open.Load() == 6 })
		down := make(chan error)
		go func() { down <- h.Shutdown(t.Context()) }()
		for _, c := range []*client{fresh, idle, headed, bodied} {
			c.wantEnd()
		}
		if err := <-h.served; err != wire.ErrClosed {
			t.Errorf("Serve: %v", err)
		}
		if _, err := h.dial(); err == nil {
			t.Error("the listener is still open")
		}
		w.release <- struct{}{}
		w.release <- struct{}{}
		for _, c := range []*client{under, ahead} {
			if resp := c.want("200 GET /wait"); !resp.Close {
				t.Error("the reply does not say that it is the last")
			}
			c.wantEnd()
		}
		if err := <-down; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if n := begun.Load(); n != 3 {
			t.Errorf("%d requests were answered, want 3", n)
		}
		if n := h.open.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
		if err := h.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown again: %v", err)
		}
		l, _ := listen()
		if err := h.Serve(l); err != wire.ErrClosed {
			t.Errorf("Serve again: %v", err)
		}
	})
}

// Shutdown ends with its context; the calls continue until Close.
func TestShutdownGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		h := start(t, pipe, w.answer)
		c := h.connect(t)
		c.send(get("/wait"))
		<-w.entered
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := h.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		select {
		case err := <-w.gone:
			t.Errorf("the call was ended: %v", err)
		default:
		}
		h.Close()
		<-w.gone
		if err := h.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		c.Close()
	})
}

// Shutdown ends under any load.
func TestShutdownUnderLoad(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		for range 20 {
			var answered atomic.Int64
			h := start(t, listen, func(w http.ResponseWriter, r *http.Request) {
				r.Context().Done()
				answered.Add(1)
				echo(w, r)
			})
			for range 10 {
				c := h.connect(t)
				go func() {
					for {
						if _, err := c.Write([]byte(get("/a"))); err != nil {
							return
						}
						if got, _ := c.next(http.MethodGet); got != "200 GET /a" {
							return
						}
					}
				}()
			}
			waitFor(t, "calls are answered", func() bool { return answered.Load() > 50 })
			if err := h.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-h.served // it closes the connection just accepted
			if n := h.open.Load(); n != 0 {
				t.Fatalf("%d connections are open", n)
			}
		}
	})
}

// A panic ends its own connection only.
func TestPanics(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		h := start(t, listen, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("watch") {
				r.Context().Done()
			}
			_, _ = w.Write([]byte("lost"))
			switch r.URL.Path {
			case "/abort":
				panic(http.ErrAbortHandler)
			case "/panic":
				panic("at the disco")
			}
		})
		for _, target := range []string{"/abort", "/abort?watch", "/panic", "/panic?watch"} {
			c := h.connect(t)
			c.send(get(target))
			c.wantEnd()
		}
		for range 2 {
			if p := <-h.panics; p != "at the disco" {
				t.Errorf("told of %v", p)
			}
		}
		c := h.connect(t)
		c.send(last)
		c.want("200 lost")
		waitFor(t, "all have ended", func() bool { return h.open.Load() == 0 })
		if len(h.panics) > 0 {
			t.Errorf("told of %v", <-h.panics)
		}
	})
}

// faulty is a listener with given failures.
type faulty struct {
	pipes
	errs []error
	at   []time.Duration // times of the calls
	from time.Time
}

func (f *faulty) Accept() (net.Conn, error) {
	f.at = append(f.at, time.Since(f.from))
	if len(f.errs) == 0 {
		return f.pipes.Accept()
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}

// A temporary error is followed by a retry; any other error ends Serve.
func TestAcceptErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		l := &faulty{pipes: pipes{done: make(chan struct{})}, from: time.Now()}
		for range 10 {
			l.errs = append(l.errs, &net.OpError{Err: syscall.EMFILE})
		}
		l.errs = append(l.errs, broken)
		s := &wire.Server{}
		if err := s.Serve(l); err != broken {
			t.Errorf("Serve: %v", err)
		}
		const ms = time.Millisecond
		want := []time.Duration{0, 5 * ms, 15 * ms, 35 * ms, 75 * ms, 155 * ms, 315 * ms, 635 * ms, 1275 * ms, 2275 * ms, 3275 * ms}
		if !slices.Equal(l.at, want) {
			t.Errorf("asked at %v, want %v", l.at, want)
		}
		select {
		case <-l.done:
		default:
			t.Error("the listener is still open")
		}
	})
}
