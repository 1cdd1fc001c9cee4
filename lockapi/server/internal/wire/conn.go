package wire

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// lingerTime is how long the server reads after its last reply if the caller
// may still be sending. Closing with unread bytes would lose the reply.
const lingerTime = 500 * time.Millisecond

// conn is one connection. At any time one goroutine reads from it, normally the
// one that serves it. During a call that watches for a disconnect, another
// goroutine reads (watch), and it serves the connection after the call.
type conn struct {
	server *Server
	net    net.Conn // read and written: under, or TLS on top of it
	under  net.Conn // as accepted; closed to end the connection abruptly
	remote string

	tls      *tls.Conn // nil without TLS
	tlsState *tls.ConnectionState
	meter    *meter

	// For reads and writes that do not block; nil if only net is usable. Over TLS
	// there is only input.
	input, raw        syscall.RawConn
	tryRead, tryWrite func(fd uintptr) bool

	// Owned by the goroutine that reads.
	in       []byte  // read but not consumed
	lent     *buffer // buffer behind in; nil if in is empty
	inErr    error   // error of tryRead
	drained  bool    // package tls has returned all bytes that it has read
	peeked   bool    // since then, no more bytes had arrived
	asked    string  // head of the request that begins
	deadline time.Time

	// Owned by the goroutine that sends a reply.
	out     []byte // the rest of it
	replies bool   // its handler has returned

	half share // of requests that have not arrived completely

	mu       sync.Mutex
	call     *call     // under way
	until    time.Time // without a call: when the wait for a request ends
	watching bool      // a watch reads
	ahead    bool      // the watch has read something
	woken    bool      // a deadline in the past has signaled the end of the call
	flooded  bool      // the caller sent too much; reading has stopped
	over     bool      // no request can follow
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, net: nc, under: nc, until: time.Now().Add(s.HeaderTimeout)}
	c.half.conn = c
	if s.TLS != nil {
		c.secure()
	}
	if a := nc.RemoteAddr(); a != nil {
		c.remote = a.String()
	}
	c.openRaw()
	_ = c.arm(c.until)
	c.server.Waits(c.under)
	return c
}

func (c *conn) run() {
	if c.handshake() {
		c.serve()
	} else {
		c.end()
	}
}

// serve answers requests until the connection ends, or until a watch continues
// in its place.
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

// end closes the connection. The goroutine that serves it calls this once.
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

// abort closes the connection and ends the context of its call. With a call it
// does so only while that is under way.
func (c *conn) abort(only *call) {
	c.mu.Lock()
	k := c.call
	if only != nil && only != k {
		c.mu.Unlock()
		return
	}
	_ = c.under.Close()
	c.mu.Unlock()
	if k != nil {
		k.end()
	}
}

// next is what follows an exchange.
type next int

const (
	another next = iota // request, in this goroutine
	watched             // requests, which the goroutine of watch answers
	last                // no more requests
)

// exchange answers one request. Its first bytes have arrived.
func (c *conn) exchange() next {
	w := newReply()
	defer w.free()
	k := &call{conn: c}
	r := new(http.Request).WithContext(k) // which copies it
	r.Header, r.TLS = w.asked, c.tlsState
	bad := c.read(r)
	w.lend()
	if bad != nil {
		if bad.status != 0 && c.write(c.server.Refuse(bad.status, bad.reason)) == nil {
			c.linger()
		}
		return last
	}
	_, cut := r.Body.(cutBody)
	if b, ok := r.Body.(*Body); ok && len(b.text) <= mostText && len(c.asked) <= mostHead {
		k.head, k.text = c.asked, b.text
	}
	c.asked = ""
	if !c.begin(k, cut) {
		return last
	}
	return c.answer(w, r, k, cut)
}

func (c *conn) answer(w *reply, r *http.Request, k *call, cut bool) next {
	w.conn, w.bare, w.minor, w.close = c, r.Method == http.MethodHead, r.ProtoMinor, r.Close || cut
	if !c.handle(w, r) {
		k.end()
		return c.after(last)
	}
	if k.hasLeft() {
		return watched
	}
	k.end()
	r.Header = nil // the caller may be slow to read the reply
	clear(w.asked)
	w.close = w.close || c.server.closing.Load()
	c.replies = true
	err := c.send(w)
	c.replies = false
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

// begin records that a call is under way. It returns false if the connection
// has to close; the call must not begin then. After an incomplete body no
// request can follow.
func (c *conn) begin(k *call, cut bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.closing.Load() || !c.server.Calls(c.under) {
		return false
	}
	c.call, c.over = k, cut
	return true
}

// after records the end of a call.
func (c *conn) after(n next) next {
	n, flooded := c.settle(n)
	if flooded {
		c.arrived()
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
		c.interrupt() // the watch closes the connection
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

// arm sets the read deadline, which is never absent. While a connection waits,
// the deadline may be earlier than necessary, so that it need not move for
// every request. The reader checks whether the time is really over.
func (c *conn) arm(deadline time.Time) error {
	if deadline.Equal(c.deadline) {
		return nil
	}
	c.deadline = deadline
	return c.net.SetReadDeadline(deadline)
}

// linger reads and drops what the caller still sends, so that closing does not
// lose the last reply.
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
