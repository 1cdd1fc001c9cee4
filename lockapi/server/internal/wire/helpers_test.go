package wire_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// host is a server under test.
type host struct {
	*wire.Server
	dial   func() (net.Conn, error)
	open   atomic.Int64 // connections accepted and not closed
	panics chan any
	served chan error
}

// over runs a test with all ways to read and write: TCP, for which the server
// makes its own system calls, net.Pipe, which has only its methods, and TLS.
func over(t *testing.T, test func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error)))) {
	t.Run("tcp", func(t *testing.T) { test(t, tcp) })
	t.Run("pipe", func(t *testing.T) { test(t, pipe) })
	t.Run("tls", func(t *testing.T) { test(t, overTLS) })
}

func tcp() (net.Listener, func() (net.Conn, error)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return l, func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }
}

func pipe() (net.Listener, func() (net.Conn, error)) {
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	return l, func() (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case l.conns <- theirs:
			return ours, nil
		case <-l.done:
			return nil, net.ErrClosed
		}
	}
}

// pipes is a listener without a network.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return nil }

// wrapping is a listener that wraps its connections.
type wrapping struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l wrapping) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(c), nil
}

// count counts the connections that are open.
func (h *host) count(c net.Conn) net.Conn {
	h.open.Add(1)
	return &counted{Conn: c, left: sync.OnceFunc(func() { h.open.Add(-1) })}
}

type counted struct {
	net.Conn
	left func()
}

func (c *counted) Close() error {
	defer c.left()
	return c.Conn.Close()
}

func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *counted) SyscallConn() (syscall.RawConn, error) {
	if inner, ok := c.Conn.(syscall.Conn); ok {
		return inner.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// start serves until the test ends, and checks that nothing is left then.
func start(t testing.TB, listen func() (net.Listener, func() (net.Conn, error)), handler http.HandlerFunc, change ...func(*wire.Server)) *host {
	t.Helper()
	h := &host{panics: make(chan any, 10), served: make(chan error, 1)}
	h.Server = &wire.Server{
		Handler:        handler,
		HeaderTimeout:  5 * time.Second,
		BodyTimeout:    10 * time.Second,
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    150 * time.Second,
		MaxHeaderBytes: 1000,
		MaxBody:        func(*http.Request) int64 { return 9000 },
		Refuse: func(status int, reason string) []byte {
			return fmt.Appendf(nil, "HTTP/1.1 %d Refused\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", status, len(reason), reason)
		},
		Waits:    func(net.Conn) {},
		Calls:    func(net.Conn) bool { return true },
		Panicked: func(v any) { h.panics <- v },
	}
	for _, c := range change {
		c(h.Server)
	}
	l, dial := listen()
	h.dial = dial
	if s, ok := l.(secured); ok {
		h.TLS = s.config
	}
	go func() { h.served <- h.Serve(wrapping{l, h.count}) }()
	t.Cleanup(func() {
		h.Close()
		waitFor(t, "nothing is left", func() bool { return h.open.Load() == 0 && goroutines("internal/wire.") == 0 })
	})
	return h
}

// goroutines counts the goroutines with text in their stacks.
func goroutines(text string) (n int) {
	all := make([]byte, 4<<20)
	all = all[:runtime.Stack(all, true)]
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if strings.Contains(stack, text) {
			n++
		}
	}
	return n
}

// waitFor repeats check until it passes.
func waitFor(t testing.TB, what string, check func() bool) {
	t.Helper()
	again, timeout := time.NewTicker(time.Millisecond), time.After(20*time.Second)
	defer again.Stop()
	for !check() {
		select {
		case <-again.C:
		case <-timeout:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// client is one connection to a host.
type client struct {
	net.Conn
	t       testing.TB
	replies *bufio.Reader
}

func (h *host) connect(t testing.TB) *client {
	t.Helper()
	c, err := h.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{c, t, bufio.NewReader(c)}
}

// send sends in the background, since the server may not read until its reply
// is read.
func (c *client) send(pieces ...string) {
	go func() {
		for _, p := range pieces {
			if _, err := io.WriteString(c, p); err != nil {
				return
			}
		}
	}()
}

func split(text string, size int) (pieces []string) {
	for p := range slices.Chunk([]byte(text), size) {
		pieces = append(pieces, string(p))
	}
	return pieces
}

// next returns the next reply as "status body".
func (c *client) next(method string) (string, *http.Response) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.replies, &http.Request{Method: method})
	if err != nil {
		return "", nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "a reply cut short: " + err.Error(), resp
	}
	return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", string(body))), resp
}

func (c *client) want(text string) *http.Response {
	c.t.Helper()
	got, resp := c.next(http.MethodGet)
	if got != text {
		c.t.Fatalf("the reply is %q, want %q", got, text)
	}
	return resp
}

// wantEnd checks that the server has closed the connection without further
// output.
func (c *client) wantEnd() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	more, err := io.ReadAll(c.replies)
	var late net.Error
	if len(more) > 0 || errors.As(err, &late) && late.Timeout() {
		c.t.Fatalf("the connection goes on: %q, %v", more, err)
	}
}

// echo answers with the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s", r.Method, r.RequestURI)
	switch {
	case err != nil:
		fmt.Fprintf(w, " (%T)", err)
	case len(body) > 0:
		fmt.Fprintf(w, " %s", body)
	}
}

const last = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
