package wire

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// lingerTime is for how long a connection is read from behind its last reply where
// the caller may still be sending: with bytes unread, closing would cut the reply off.
const lingerTime = 500 * time.Millisecond

// conn is one connection. At any time one goroutine reads from it, which is the
// one that serves it; during a call that minds whether its caller leaves, that is
// another one (watch), which goes on serving if it is still reading when the
// call ends. So no call has to stop a read under way.
type conn struct {
	server *Server
	net    net.Conn
	remote string

	// What reads and writes without waiting; raw is nil where only net can.
	raw               syscall.RawConn
	tryRead, tryWrite func(fd uintptr) bool

	// Of the goroutine that reads.
	in       []byte  // what was read and not taken
	lent     *buffer // what in is in; nil where in is empty
	inErr    error   // of tryRead
	deadline time.Time

	out []byte // what is left of a reply; of the goroutine that sends it

	mu       sync.Mutex
	call     *call     // under way
	until    time.Time // where none is: when the wait for a request ends
	watching bool      // a watch reads
	over     bool      // what may still come is no request
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, net: nc, until: time.Now().Add(s.HeaderTimeout)}
	if a := nc.RemoteAddr(); a != nil {
		c.remote = a.String()
	}
	c.openRaw()
	_ = c.arm(c.until)
	c.server.Waits(c.net)
	return c
}

// serve answers requests until the connection ends, or a watch goes on in its place.
func (c *conn) serve() {
	for len(c.in) > 0 || c.wait() == nil {
		if c.skipLineEnds(); len(c.in) == 0 {
			continue
		}
		switch c.exchange() {
		case another:
		case watched:
			return
		case last:
			c.end()
			return
		}
	}
	c.end()
}

// end closes the connection. Whoever serves it calls this, once.
func (c *conn) end() {
	c.release()
	_ = c.net.Close()
	c.server.ended(c)
}

// closeWaiting closes the connection if no call is under way.
func (c *conn) closeWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call == nil {
		_ = c.net.Close()
	}
}

// abort closes the connection and ends the context of its call.
func (c *conn) abort() {
	_ = c.net.Close()
	c.mu.Lock()
	k := c.call
	c.mu.Unlock()
	if k != nil {
		k.end()
	}
}

// next is what comes after an exchange.
type next int

const (
	another next = iota // request, in this goroutine
	watched             // requests, which the watch answers
	last                // it was
)

// exchange answers one request, whose first bytes are there.
func (c *conn) exchange() next {
	w := newReply()
	defer w.free()
	r := http.Request{Header: w.asked}
	if bad := c.read(&r); bad != nil {
		if bad.status != 0 && c.write(c.server.Refuse(bad.status, bad.reason)) == nil {
			c.linger()
		}
		return last
	}
	_, cut := r.Body.(cutBody)
	k := &call{conn: c}
	if !c.begin(k, cut) {
		return last
	}
	request := r.WithContext(k)
	if !c.handle(w, request) {
		k.end()
		return c.after(last)
	}
	k.end()
	w.close = w.close || r.Close || cut || c.server.closing.Load()
	err := c.send(w, request)
	switch {
	case err != nil:
		return c.after(last)
	case !w.close:
		return c.after(another)
	}
	if cut {
		c.linger()
	}
	return c.after(last)
}

// begin notes that a call is under way, unless the connection has to go: then it
// has not begun. Behind a body that was cut no request can follow.
func (c *conn) begin(k *call, cut bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.closing.Load() || !c.server.Calls(c.net) {
		return false
	}
	c.call, c.over = k, cut
	return true
}

// after ends a call.
func (c *conn) after(n next) next {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.call, c.until = nil, time.Now().Add(c.server.IdleTimeout)
	c.over = c.over || n == last || c.server.closing.Load()
	switch {
	case c.over && c.watching:
		_ = c.net.Close() // the watch sees to the rest
		return watched
	case c.over:
		return last
	}
	c.server.Waits(c.net)
	if c.watching {
		return watched
	}
	return another
}

// handle runs the handler and reports whether it returned.
func (c *conn) handle(w http.ResponseWriter, r *http.Request) (returned bool) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			c.server.Panicked(p)
		}
	}()
	c.server.Handler.ServeHTTP(w, r)
	return true
}

// mind begins to watch whether the caller of k leaves. It cannot where a part of the
// next request has been read already, or the rest of a body may come.
func (c *conn) mind(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.watching && !c.over && len(c.in) == 0 {
		c.watching = true
		go c.watch(k)
	}
}

// watch reads while the call is under way, and ends the call when the connection
// does. When the call has ended before there was anything to read, it serves the
// connection from there on.
func (c *conn) watch(k *call) {
	err := c.wait()
	c.mu.Lock()
	c.watching = false
	c.over = c.over || err != nil
	under, over := c.call != nil, c.over
	c.mu.Unlock()
	switch {
	case under && err != nil:
		k.end()
	case under: // whoever answers the call finds what was read
	case over:
		c.end()
	default:
		c.serve()
	}
}

// wait waits until bytes have come. It ends with an error when the connection
// does, or when no call is under way and the time for the next one's first bytes is
// over.
func (c *conn) wait() error {
	for {
		err := c.fill()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		c.mu.Lock()
		under, until := c.call != nil, c.until
		c.mu.Unlock()
		now := time.Now()
		switch {
		case under:
			until = now.Add(c.server.IdleTimeout)
		case !until.After(now):
			return os.ErrDeadlineExceeded
		}
		if err := c.arm(until); err != nil {
			return err
		}
	}
}

// arm sets the deadline of reading. There always is one. While a connection waits
// it may be earlier than it need be, so that it need not be moved for every
// request: whoever meets it looks whether the time is really over.
func (c *conn) arm(deadline time.Time) error {
	if deadline.Equal(c.deadline) {
		return nil
	}
	c.deadline = deadline
	return c.net.SetReadDeadline(deadline)
}

// linger takes what the caller still sends, so that closing does not cut off the
// reply that it was sent.
func (c *conn) linger() {
	half, ok := c.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.arm(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, c.net)
}
