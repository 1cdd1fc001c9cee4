package wire_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

const posted = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"

// A handler that leaves runs again after Wake, with the same request. Requests
// that have arrived in the meantime follow.
func TestLater(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		left := make(chan *wire.Later, 1)
		h := start(t, listen, func(w http.ResponseWriter, r *http.Request) {
			switch l := wire.LaterOf(r.Context()); {
			case l != nil:
				l.Leave("something")
				left <- l
			case r.Method == http.MethodPost && wire.LeftOf(r.Context()) != "something":
				t.Error("the second run does not find what the first has left")
			default:
				echo(w, r)
			}
		})
		c := h.connect(t)
		defer c.Close()
		for range 3 {
			c.send(posted, get("/b"))
			l := <-left
			l.Wake()
			l.Wake()
			c.want("200 POST /a hello")
			c.want("200 GET /b")
		}
	})
}

// A handler that has left runs again when its caller disconnects, and a server
// that stops waits for it.
func TestLaterWithoutACaller(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		left, again := make(chan *wire.Later, 1), make(chan error, 1)
		h := start(t, listen, func(_ http.ResponseWriter, r *http.Request) {
			if l := wire.LaterOf(r.Context()); l != nil {
				l.Leave(true)
				left <- l
				return
			}
			again <- r.Context().Err()
		})
		c := h.connect(t)
		c.send(posted)
		<-left
		_ = c.Close()
		if err := <-again; err != context.Canceled {
			t.Errorf("the context's error is %v", err)
		}

		c = h.connect(t)
		defer c.Close()
		c.send(posted)
		l := <-left
		stopped := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		go func() { stopped <- h.Shutdown(ctx) }()
		l.Wake()
		c.next(http.MethodPost)
		if err := <-stopped; err != nil {
			t.Errorf("the server did not stop: %v", err)
		}
		if err := <-again; err != nil {
			t.Errorf("the call was cut off: %v", err)
		}
	})
}

// A call with a long request waits in its handler.
func TestLaterKeepsLittle(t *testing.T) {
	h := start(t, tcp, func(w http.ResponseWriter, r *http.Request) {
		if wire.LaterOf(r.Context()) != nil {
			t.Error("it would keep a long request")
		}
		w.WriteHeader(http.StatusNoContent)
	}, func(s *wire.Server) { s.MaxHeaderBytes = 32 << 10 })
	c := h.connect(t)
	defer c.Close()
	for _, long := range []string{
		"POST /a HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 5000) + "\r\nContent-Length: 1\r\n\r\nx",
		"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("x", 5000),
	} {
		c.send(long)
		if _, resp := c.next(http.MethodPost); resp == nil || resp.StatusCode != http.StatusNoContent {
			t.Fatalf("the reply is %v", resp)
		}
	}
}

// corked collects writes until it is opened.
type corked struct {
	net.Conn
	shut bool
	held []byte
}

func (c *corked) Write(b []byte) (int, error) {
	if c.shut {
		c.held = append(c.held, b...)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestLaterBesideAnotherRecord: two TLS records arrive at once. The first has a
// call that leaves; package tls still has the second when the watch begins.
func TestLaterBesideAnotherRecord(t *testing.T) {
	left := make(chan *wire.Later, 1)
	ours, theirs := configs()
	l, dial := tcp()
	h := start(t, func() (net.Listener, func() (net.Conn, error)) { return secured{l, ours}, dial }, func(w http.ResponseWriter, r *http.Request) {
		if l := wire.LaterOf(r.Context()); l != nil && r.Method == http.MethodPost {
			l.Leave(true)
			left <- l
			return
		}
		echo(w, r)
	})
	under := h.connect(t).Conn
	cork := &corked{Conn: under}
	secure := tls.Client(cork, theirs)
	if err := secure.Handshake(); err != nil {
		t.Fatal(err)
	}
	c := &client{secure, t, bufio.NewReader(secure)}
	defer c.Close()
	for range 3 { // the later times package tls has been drained before
		cork.shut, cork.held = true, nil
		c.sendAll(posted)
		c.sendAll(get("/b"))
		cork.shut = false
		if _, err := cork.Conn.Write(cork.held); err != nil {
			t.Fatal(err)
		}
		(<-left).Wake()
		c.want("200 POST /a hello")
		c.want("200 GET /b")
	}
}
