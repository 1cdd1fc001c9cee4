package wire

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// lingerTime is for how long a connection is read from behind its last reply
// where the caller may still be sending: with bytes unread, closing would cut
// the reply off.
const lingerTime = 500 * time.Millisecond

// conn is one connection. At any time one goroutine reads from it, which is the
// one that serves it; during a call that watches whether its caller leaves,
// that is another one (watch), which goes on serving when the call ends.
type conn struct {
	server *Server
	net    net.Conn // what is read and written: under, or TLS over it
	under  net.Conn // what was accepted; closed to cut the connection off, without a word
	remote string

	tls      *tls.Conn // nil where none is spoken
	tlsState *tls.ConnectionState
	meter    *meter

	// What reads and writes without waiting; raw is nil where only net can.
	raw               syscall.RawConn
	tryRead, tryWrite func(fd uintptr) bool

	// Of the goroutine that reads.
	in       []byte  // what was read and not taken
	lent     *buffer // what in is in; nil where in is empty
	inErr    error   // of tryRead
	deadline time.Time

	out []byte // what is left of a reply; of the goroutine that sends it

	part part // of a request that has not arrived whole

	mu       sync.Mutex
	call     *call     // under way
	until    time.Time // where none is: when the wait for a request ends
	watching bool      // a watch reads
	ahead    bool      // it has read something already
	woken    bool      // and it was told, by a deadline in the past, that the call has ended
	flooded  bool      // nobody reads: there is too much of it
	over     bool      // what may still come is no request
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, net: nc, under: nc, until: time.Now().Add(s.HeaderTimeout)}
	if config := s.tlsConfig(); config != nil {
		c.secure(config)
	}
	if a := nc.RemoteAddr(); a != nil {
		c.remote = a.String()
	}
	c.openRaw()
	_ = c.arm(c.until)
	c.server.Waits(c.under)
	return c
}

// run serves a new connection.
func (c *conn) run() {
	if c.handshake() {
		c.serve()
	} else {
		c.end()
	}
}

// serve answers requests until the connection ends, or a watch goes on in its
// place.
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
		_ = c.under.Close()
	}
}

// abort closes the connection and ends the context of its call.
func (c *conn) abort() {
	_ = c.under.Close()
	c.mu.Lock()
	k := c.call
	c.mu.Unlock()
	if k != nil {
		k.end()
	}
}

// cutOff is abort for a connection whose call is k.
func (c *conn) cutOff(k *call) {
	c.mu.Lock()
	under := c.call == k
	if under {
		_ = c.under.Close()
	}
	c.mu.Unlock()
	if under {
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
	r := http.Request{Header: w.asked, TLS: c.tlsState}
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
	w.conn, w.request, w.close = c, request, r.Close || cut
	if !c.handle(w, request) {
		k.end()
		return c.after(last)
	}
	k.end()
	w.close = w.close || c.server.closing.Load()
	err := c.send(w)
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

// begin notes that a call is under way, unless the connection has to go: then
// it has not begun. Behind a body that was cut no request can follow.
func (c *conn) begin(k *call, cut bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.closing.Load() || !c.server.Calls(c.under) {
		return false
	}
	c.call, c.over = k, cut
	return true
}

// after ends a call.
func (c *conn) after(n next) next {
	n, flooded := c.settle(n)
	if flooded {
		c.server.half.done(c)
	}
	return n
}

func (c *conn) settle(n next) (_ next, flooded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.call, c.until = nil, time.Now().Add(c.server.IdleTimeout)
	c.over = c.over || n == last || c.server.closing.Load()
	flooded, c.flooded = c.flooded, false
	switch {
	case c.over && c.watching:
		c.interrupt() // the watch sees to the rest
		return watched, flooded
	case c.over:
		return last, flooded
	}
	c.server.Waits(c.under)
	if c.watching {
		c.wake()
		return watched, flooded
	}
	return another, flooded
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

// arm sets the deadline of reading. There always is one. While a connection
// waits it may be earlier than it need be, so that it need not be moved for
// every request: whoever meets it looks whether the time is really over.
func (c *conn) arm(deadline time.Time) error {
	if deadline.Equal(c.deadline) {
		return nil
	}
	c.deadline = deadline
	return c.net.SetReadDeadline(deadline)
}

// linger takes what the caller still sends, so that closing does not cut off
// the reply that it was sent. It keeps none of it.
func (c *conn) linger() {
	half, ok := c.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.arm(time.Now().Add(lingerTime)) != nil {
		return
	}
	c.release()
	for c.fill() == nil {
		c.release()
	}
}
