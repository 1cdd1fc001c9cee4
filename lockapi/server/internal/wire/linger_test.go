package wire_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// A caller that sends too much receives the refusal before the connection ends.
func TestRefusalsAreRead(t *testing.T) {
	big := fmt.Sprintf("Content-Length: %d\r\n", 9500)
	for name, text := range map[string]string{
		"refused":           post("A\r\n"+big, string(make([]byte, 9500))),
		"too long":          post(big, string(make([]byte, 9500))),
		"too long, watched": "POST /wait HTTP/1.1\r\nHost: x\r\n" + big + "\r\n" + string(make([]byte, 9500)),
		"much too long":     post("Content-Length: 1000000\r\n", string(make([]byte, 1000000))),
		"not sent, watched": "POST /wait HTTP/1.1\r\nHost: x\r\n" + big + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, tcp, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/wait" {
					r.Context().Done()
				}
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			}, func(s *wire.Server) {
				s.Refuse = func(int, string) []byte { return []byte("HTTP/1.1 413 x\r\nContent-Length: 0\r\n\r\n") }
			})
			for range 50 {
				c := h.connect(t)
				c.send(split(text, 4000)...)
				c.want("413")
				c.wantEnd()
				c.Close()
			}
			c := h.connect(t)
			c.send(text)
			c.want("413")
			waitFor(t, "all have ended, also the one whose caller keeps its end", func() bool { return h.open.Load() == 0 })
		})
	}
}

// halves returns pipes that seem to support half a close.
func halves() (net.Listener, func() (net.Conn, error)) {
	l, dial := pipe()
	return wrapping{l, func(c net.Conn) net.Conn { return half{c} }}, dial
}

type half struct{ net.Conn }

func (half) CloseWrite() error { return nil }

// After the last reply the server reads for half a second, however much the
// caller sends. It does not watch for a disconnect then.
func TestLingering(t *testing.T) {
	const much = "Content-Length: 1000000\r\n"
	for name, l := range map[string]struct {
		head  string
		times int // number of further writes
	}{
		"refused":         {post("A\r\n", ""), 4},
		"too long":        {post(much, ""), 4},
		"silent":          {post(much, ""), 0},
		"watched":         {post(much+"Watch: x\r\n", ""), 4},
		"silent, watched": {post(much+"Watch: x\r\n", ""), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, halves, func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Watch") != "" {
						r.Context().Done()
					}
					echo(w, r)
				})
				c := h.connect(t)
				c.send(l.head)
				c.next(http.MethodGet)
				began := time.Now()
				for range l.times {
					if _, err := io.WriteString(c, strings.Repeat("x", 100_000)); err != nil {
						t.Fatalf("after %v: %v", time.Since(began), err)
					}
					time.Sleep(100 * time.Millisecond)
				}
				c.wantEnd()
				if took := time.Since(began); took != 500*time.Millisecond {
					t.Errorf("the connection ends after %v", took)
				}
				c.Close()
			})
		})
	}
}
