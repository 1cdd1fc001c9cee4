package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// A step waits, then sends text.
type step struct {
	after time.Duration
	text  string
}

// trickle sends text a byte a second.
func trickle(text string) (steps []step) {
	for _, b := range text {
		steps = append(steps, step{time.Second, string(b)})
	}
	return steps
}

// The time limits of a caller, in virtual time: 5 s for a head, 10 s for a
// body, 150 s from a reply to the next request. Replies are listed in order;
// the time is the end of the connection.
func TestDeadlines(t *testing.T) {
	const late = "200 POST /p (timed out)"
	for name, d := range map[string]struct {
		steps []step
		want  []string
		ends  time.Duration
	}{
		"nothing":            {nil, nil, 5 * time.Second},
		"a head in time":     {[]step{{0, get("/a")}}, []string{"200 GET /a"}, 150 * time.Second},
		"a late head":        {[]step{{4 * time.Second, get("/a")}}, []string{"200 GET /a"}, 154 * time.Second},
		"half a head":        {[]step{{2 * time.Second, "GET "}}, nil, 7 * time.Second},
		"a head that drips":  {trickle("GET / HTTP/1.1\r\n"), nil, 6 * time.Second},
		"a body in time":     {[]step{{0, post("Content-Length: 5\r\n", "he")}, {9 * time.Second, "llo"}}, []string{"200 POST /p hello"}, 159 * time.Second},
		"half a body":        {[]step{{0, post("Content-Length: 5\r\n", "he")}}, []string{late}, 10 * time.Second},
		"a body that drips":  {slices.Concat([]step{{0, post("Content-Length: 20\r\n", "")}}, trickle(strings.Repeat("x", 20))), []string{late}, 10 * time.Second},
		"chunks that drip":   {slices.Concat([]step{{0, post("Transfer-Encoding: chunked\r\n", "")}}, trickle(strings.Repeat("1\r\nx\r\n", 20))), []string{late}, 10 * time.Second},
		"trailers that drip": {slices.Concat([]step{{0, post("Transfer-Encoding: chunked\r\n", "0\r\n")}}, trickle("A: b\r\nC: d\r\n\r\n")), []string{late}, 10 * time.Second},
		"idle between":       {[]step{{0, get("/a")}, {149 * time.Second, get("/b")}, {149 * time.Second, get("/c")}}, []string{"200 GET /a", "200 GET /b", "200 GET /c"}, 448 * time.Second},
		"half a next head":   {[]step{{0, get("/a")}, {149 * time.Second, "GET /"}}, []string{"200 GET /a"}, 154 * time.Second},
		"a next that drips":  {slices.Concat([]step{{0, get("/a")}, {100 * time.Second, "G"}}, trickle(get("/b")[1:])), []string{"200 GET /a"}, 105 * time.Second},
		"behind a body":      {[]step{{0, post("Content-Length: 1\r\n", "x")}, {149 * time.Second, get("/b")}}, []string{"200 POST /p x", "200 GET /b"}, 299 * time.Second},
	} {
		for _, asks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/asks=%v", name, asks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := start(t, pipe, func(w http.ResponseWriter, r *http.Request) {
						if asks {
							r.Context().Done()
						}
						body, err := io.ReadAll(r.Body)
						if errors.Is(err, os.ErrDeadlineExceeded) {
							body = []byte("(timed out)")
						}
						r.Body = io.NopCloser(bytes.NewReader(body))
						echo(w, r)
					})
					began := time.Now()
					c := h.connect(t)
					var sending sync.WaitGroup
					sending.Go(func() {
						for _, s := range d.steps {
							time.Sleep(s.after)
							if _, err := io.WriteString(c, s.text); err != nil {
								return
							}
						}
					})
					for _, want := range d.want {
						c.want(want)
					}
					if _, err := c.replies.ReadByte(); err != io.EOF {
						t.Errorf("the connection does not end: %v", err)
					}
					if ends := time.Since(began); ends != d.ends {
						t.Errorf("the connection ends after %v, want %v", ends, d.ends)
					}
					c.Close()
					sending.Wait()
				})
			})
		}
	}
}

// Each 64 KiB of a reply has its own time limit.
func TestSlowReaders(t *testing.T) {
	body := strings.Repeat("x", 300<<10)
	for name, read := range map[string]struct {
		size int
		all  bool
	}{
		"in time":  {64 << 10, true},
		"too late": {2 << 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, pipe, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, body) })
				c := h.connect(t)
				c.send(get("/a"))
				resp := c.header()
				var got int
				piece := make([]byte, read.size)
				for got < len(body) {
					time.Sleep(5 * time.Second)
					n, err := io.ReadFull(resp, piece[:min(len(piece), len(body)-got)])
					if got += n; err != nil {
						break
					}
				}
				if (got == len(body)) != read.all {
					t.Errorf("%d of %d bytes were read", got, len(body))
				}
				if read.all {
					time.Sleep(100 * time.Second) // after the deadline of the last piece
					c.send(last)
					c.header()
				}
				c.Close()
			})
		})
	}
}

// header skips a reply's head.
func (c *client) header() io.Reader {
	c.t.Helper()
	for {
		line, err := c.replies.ReadString('\n')
		if err != nil {
			c.t.Fatal(err)
		}
		if line == "\r\n" {
			return c.replies
		}
	}
}

// long is a reply that the system does not accept at once; endless never fits
// without a reader.
var long, endless = strings.Repeat("0123456789", 50_000), strings.Repeat("0123456789", 2<<20)

func sendLong(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/long":
		_, _ = io.WriteString(w, long)
	case "/endless":
		_, _ = io.WriteString(w, endless)
	}
}

// The same holds for full system buffers: a reader that stops is cut off.
func TestStoppedReadersOfSockets(t *testing.T) {
	entered := make(chan struct{})
	h := start(t, tcp, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		sendLong(w, r)
	}, func(s *wire.Server) { s.WriteTimeout = 50 * time.Millisecond })
	h.connect(t).send(get("/endless"))
	<-entered
	waitFor(t, "it has ended", func() bool { return h.open.Load() == 0 })
}

// A slow reader gets the whole reply, and no old deadline fails the next reply.
func TestSlowReadersOfSockets(t *testing.T) {
	var left atomic.Pointer[time.Time]
	h := start(t, func() (net.Listener, func() (net.Conn, error)) {
		l, dial := small()
		return wrapping{l, func(c net.Conn) net.Conn { return noted{c.(*net.TCPConn), &left} }}, dial
	}, sendLong)
	c := h.connect(t)
	c.send(get("/long") + get("/long") + last)
	for range 2 {
		if got, _ := c.next(http.MethodGet); got != "200 "+long {
			t.Errorf("%d bytes, not what was sent", len(got))
		}
	}
	if got, _ := c.next(http.MethodGet); got != "200" {
		t.Errorf("the next reply: %q", got)
	}
	c.wantEnd()
	if at := left.Load(); at == nil || !at.IsZero() {
		t.Errorf("the deadline of writing is left at %v", at)
	}
}

// noted records the latest write deadline.
type noted struct {
	*net.TCPConn
	latest *atomic.Pointer[time.Time]
}

func (c noted) SetWriteDeadline(at time.Time) error {
	c.latest.Store(&at)
	return c.TCPConn.SetWriteDeadline(at)
}

// small returns sockets with small send buffers.
func small() (net.Listener, func() (net.Conn, error)) {
	l, dial := tcp()
	return wrapping{l, func(c net.Conn) net.Conn {
		_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		return c
	}}, dial
}

// A reply without room waits for it and arrives completely.
func TestRepliesWaitForRoom(t *testing.T) {
	const calls = 10_000
	var answered atomic.Int64
	h := start(t, small, func(w http.ResponseWriter, r *http.Request) {
		answered.Add(1)
		echo(w, r)
	})
	c := h.connect(t)
	c.send(strings.Repeat(get("/a"), calls))
	var before int64
	waitFor(t, "there is no more room", func() bool {
		now := answered.Load()
		stands := now > 0 && now == before
		before = now
		return stands
	})
	for range calls {
		c.want("200 GET /a")
	}
}

// A reply that its caller does not read keeps nothing of the request's headers.
func TestUnreadRepliesKeepNoHeaders(t *testing.T) {
	const calls = 100
	var names strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&names, "%x:\r\n", i)
	}
	for name, headers := range map[string]string{"a long header": "A: " + strings.Repeat("a", 30_000) + "\r\n", "many headers": names.String()} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan struct{})
			h := start(t, pipe, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusNoContent)
				entered <- struct{}{}
			}, func(s *wire.Server) { s.MaxHeaderBytes, s.WriteTimeout = 32<<10, time.Hour })
			heap := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.GC() // frees the content of pools
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			ask := func() {
				c := h.connect(t)
				c.sendAll("GET / HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n")
				<-entered
			}
			ask()
			before := heap()
			for range calls {
				ask()
			}
			waitFor(t, "no handler runs", func() bool { return goroutines("wire.(*conn).handle(") == 0 })
			if took := int64(heap()-before) / calls; took > 25_000 {
				t.Errorf("a call takes %d bytes", took)
			}
		})
	}
}
