package wire

import (
	"errors"
	"os"
	"time"
)

// floodTime is how long a call may continue after its caller has sent more than
// is kept. The server stops reading then and can no longer detect a disconnect.
const floodTime = 5 * time.Second

var past = time.Unix(1, 0)

// watchDisconnect starts to watch whether the caller of k disconnects. It does
// not after an incomplete body: such a call is short, and the input may be the
// rest of the body. drain is set by the goroutine that has served the call.
func (c *conn) watchDisconnect(k *call, drain bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watching || c.over {
		return
	}
	c.watching = true
	if drain {
		c.mu.Unlock()
		c.drain()
		c.mu.Lock()
	}
	c.ahead = len(c.in) > 0
	go c.watch(k)
}

// watch reads during the call, and ends the call when the connection ends.
// Bytes from the caller are kept as the beginning of the next requests, up to
// the size of a head. After the call it serves the connection.
func (c *conn) watch(k *call) {
	for !c.isFull() {
		if len(c.in) > 0 {
			c.holds(c.held(), true)
		}
		err := c.wait()
		under, over := c.seen(err)
		if under && err == nil {
			continue
		}
		c.arrived()
		switch {
		case under:
			k.end()
		case over:
			c.end()
		default:
			growStack()
			c.serve()
		}
		return
	}
	c.flood(k)
}

// seen records what a watch has read: bytes, or the connection's end. It
// reports whether the call is still under way, and whether no request can
// follow.
func (c *conn) seen(err error) (under, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	under = c.call != nil
	c.ahead = under && err == nil
	c.watching = c.ahead
	c.over = c.over || err != nil
	c.forgetDeadline()
	return under, c.over
}

// isFull reports whether more bytes have arrived after a request than are kept.
func (c *conn) isFull() bool { return len(c.in) >= max(c.server.MaxHeaderBytes, len(buffer{})) }

// flood ends a watch that cannot keep more. The goroutine that answers the call
// finds the bytes already read. If the call does not end in time, the
// connection is closed.
func (c *conn) flood(k *call) {
	c.holds(c.held(), true)
	c.mu.Lock()
	c.watching, c.ahead = false, false
	c.forgetDeadline()
	under, over := c.call != nil, c.over
	c.flooded = under
	c.mu.Unlock()
	if under {
		k.within(floodTime)
		return
	}
	c.arrived()
	if over {
		c.end()
	} else {
		c.serve()
	}
}

// wait waits until more bytes have arrived. It returns an error when the
// connection ends, or when no call is under way and the time for the next
// request is over. It returns nil when a call has ended and bytes were read
// during it.
func (c *conn) wait() error {
	for {
		err := c.fill()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if again, err := c.prolong(); !again {
			return err
		}
	}
}

// prolong sets the next read deadline after one has expired, and reports
// whether there is one.
func (c *conn) prolong() (again bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetDeadline()
	now, until := time.Now(), c.until
	switch {
	case c.call != nil:
		until = now.Add(c.server.IdleTimeout)
	case c.over:
		return false, os.ErrDeadlineExceeded
	case len(c.in) > 0:
		return false, nil
	case !until.After(now):
		return false, os.ErrDeadlineExceeded
	}
	if err := c.arm(until); err != nil {
		return false, err
	}
	return true, nil
}

// wake makes the watch notice the end of the call. Without bytes that have
// arrived already, the next bytes do that. c.mu is held.
func (c *conn) wake() {
	if c.ahead {
		c.interrupt()
	}
}

// interrupt makes the watch check the state of the connection. c.mu is held.
func (c *conn) interrupt() {
	c.woken = true
	_ = c.net.SetReadDeadline(past)
}

// forgetDeadline is called by the reader when another goroutine may have set
// the deadline. c.mu is held.
func (c *conn) forgetDeadline() {
	if c.woken {
		c.woken, c.deadline = false, time.Time{}
	}
}
