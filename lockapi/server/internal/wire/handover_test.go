package wire_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// Every call of Done passes a connection to another reading goroutine, and so
// does a handler that leaves. With any timing, each request is answered once and in order.
func TestHandOver(t *testing.T) {
	const conns, calls = 6, 500
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		var asking sync.WaitGroup
		h := start(t, listen, func(w http.ResponseWriter, r *http.Request) {
			if wire.LeftOf(r.Context()) != nil {
				echo(w, r)
				return
			}
			switch rand.IntN(7) {
			case 0:
			case 1:
				r.Context().Done()
			case 2:
				asking.Go(func() { r.Context().Done() })
				yield()
			case 3:
				asking.Go(func() { <-r.Context().Done() })
			case 4:
				r.Context().Done()
				yield()
			case 5, 6:
				if l := wire.LaterOf(r.Context()); l != nil {
					asking.Go(l.Wake)
					yield()
					l.Leave(true)
					return
				}
			}
			echo(w, r)
		})
		var clients sync.WaitGroup
		for i := range conns {
			c := h.connect(t)
			clients.Go(func() {
				defer c.Close()
				ahead := make(chan struct{}, 1+i%3) // bounds the requests under way
				go func() {
					for n := range calls {
						ahead <- struct{}{}
						c.sendRandomly(request(n))
					}
				}()
				for n := range calls {
					if got, _ := c.next(http.MethodGet); got != answer(n) {
						t.Errorf("%q, want %q", got, answer(n))
						return
					}
					<-ahead
				}
			})
		}
		clients.Wait()
		asking.Wait()
	})
}

func request(n int) string {
	switch n % 3 {
	case 0:
		return get(fmt.Sprintf("/%d", n))
	case 1:
		return fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", n)
	}
	return fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", n)
}

func answer(n int) string {
	if n%3 == 0 {
		return fmt.Sprintf("200 GET /%d", n)
	}
	return fmt.Sprintf("200 POST /%d hello", n)
}

// sendRandomly sends text whole or in pieces.
func (c *client) sendRandomly(text string) {
	for len(text) > 0 {
		n := len(text)
		if rand.IntN(3) == 0 {
			n = 1 + rand.IntN(len(text))
		}
		yield()
		if _, err := c.Write([]byte(text[:n])); err != nil {
			return
		}
		text = text[n:]
	}
}

// yield lets others run for a while.
func yield() {
	for range rand.IntN(30) {
		runtime.Gosched()
	}
}
