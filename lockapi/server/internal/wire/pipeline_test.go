package wire_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// waiting answers /wait when released or when its caller disconnects, and all
// else at once.
type waiting struct {
	entered chan struct{}
	release chan struct{}
	gone    chan error
}

func newWaiting() *waiting {
	return &waiting{make(chan struct{}, 10), make(chan struct{}, 10), make(chan error, 10)}
}

func (w *waiting) answer(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/wait" {
		done := r.Context().Done()
		w.entered <- struct{}{}
		select {
		case <-w.release:
		case <-done:
			w.gone <- r.Context().Err()
		}
	}
	echo(rw, r)
}

// Requests sent early are kept until their turn, whenever and in whichever
// pieces they arrive.
func TestPipelining(t *testing.T) {
	const next = "POST /next HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
	requests := map[string]string{
		"no body": get("/wait"),
		"length":  "POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"chunks":  "POST /wait HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	}
	replies := map[string]string{"no body": "200 GET /wait", "length": "200 POST /wait abc", "chunks": "200 POST /wait abc"}
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		w := newWaiting()
		h := start(t, listen, w.answer)
		for name, first := range requests {
			for ahead := range len(next) + 1 {
				c := h.connect(t)
				c.send(first + next[:ahead])
				<-w.entered
				c.send(next[ahead:] + last)
				w.release <- struct{}{}
				for _, want := range []string{replies[name], "200 POST /next hi", end} {
					if got, _ := c.next(http.MethodGet); got != want {
						t.Fatalf("%s, %d bytes read ahead: %q, want %q", name, ahead, got, want)
					}
				}
				c.wantEnd()
			}
		}
	})
}

// As much as the buffer of a long head may have been read ahead.
func TestPipeliningBehindALongHead(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		h := start(t, listen, echo, func(s *wire.Server) { s.MaxHeaderBytes = 32 << 10 })
		c := h.connect(t)
		text := post("Transfer-Encoding: chunked\r\nA: "+strings.Repeat("x", 5000)+"\r\n", "5\r\nhello\r\n0\r\n\r\n")
		for n := range 300 {
			text += get(fmt.Sprintf("/%d", n))
		}
		c.send(text)
		c.want("200 POST /p hello")
		for n := range 300 {
			c.want(fmt.Sprintf("200 GET /%d", n))
		}
	})
}

// Bytes after a connection's last request are not a request, even if the watch
// for a disconnect has read them: they may be the rest of a body.
func TestNothingFollowsTheLast(t *testing.T) {
	for name, head := range map[string]string{
		"close":    get("/last", "Connection: close\r\n"),
		"cut body": "POST /last HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
		"panic":    get("/panic"),
	} {
		t.Run(name, func(t *testing.T) {
			over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
				var smuggled atomic.Int64
				begun := make(chan struct{})
				h := start(t, listen, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/smuggled" {
						smuggled.Add(1)
						return
					}
					r.Context().Done()
					begun <- struct{}{}
					if r.URL.Path == "/panic" {
						panic(http.ErrAbortHandler)
					}
				})
				for range testrun.Times(150, 1000) {
					c := h.connect(t)
					c.send(head)
					<-begun
					c.send(get("/smuggled"))
					c.next(http.MethodGet)
					c.Close()
				}
				h.Close()
				waitFor(t, "all have ended", func() bool { return h.open.Load() == 0 })
				if n := smuggled.Load(); n > 0 {
					t.Errorf("%d requests were found behind the last", n)
				}
			})
		})
	}
}
