package wire

import (
	"errors"
	"os"
	"time"
)

// floodTime is how long a call may go on behind which its caller has sent more
// than is kept: nobody can tell any more whether that caller is still there.
const floodTime = 5 * time.Second

// past is a deadline that is over.
var past = time.Unix(1, 0)

// watchDisconnect begins to watch whether the caller of k leaves. It need not
// where the body was cut: no such call is for long, and what comes may be the
// rest of the body.
func (c *conn) watchDisconnect(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.watching && !c.over {
		c.watching, c.ahead = true, len(c.in) > 0
		go c.watch(k)
	}
}

// watch reads while the call is under way, and ends the call when the
// connection does, whatever the caller has sent before: that is kept, as the
// beginning of the next requests, up to the size of a head. When the call has
// ended it serves the connection from there on.
func (c *conn) watch(k *call) {
	for !c.isFull() {
		if len(c.in) > 0 {
			c.server.half.holds(c, c.held(), true)
		}
		err := c.wait()
		under, over := c.seen(err)
		if under && err == nil {
			continue
		}
		c.server.half.done(c)
		switch {
		case under:
			k.end()
		case over:
			c.end()
		default:
			c.serve()
		}
		return
	}
	c.flood(k)
}

// seen notes what a watch has met: bytes, or the connection's end. It reports
// whether the call is under way still, and whether no request can follow.
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

// isFull reports whether more was read behind a request than is kept.
func (c *conn) isFull() bool { return len(c.in) >= max(c.server.MaxHeaderBytes, len(buffer{})) }

// flood ends a watch that keeps no more. Whoever answers the call finds what
// was read; where nobody does in time, the connection is cut off.
func (c *conn) flood(k *call) {
	c.server.half.holds(c, c.held(), true)
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
	c.server.half.done(c)
	if over {
		c.end()
	} else {
		c.serve()
	}
}

// wait waits until more bytes have come. It ends with an error when the
// connection does, or when no call is under way and the time for the next one's
// first bytes is over; and without when a call has ended behind which something
// was read.
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

// prolong is asked when the deadline of reading is met: whether there is
// another.
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

// wake tells the watch that the call has ended, where it would not find out
// when the next bytes come: they have. c.mu is held.
func (c *conn) wake() {
	if c.ahead {
		c.interrupt()
	}
}

// interrupt has the watch look what there is to do. c.mu is held.
func (c *conn) interrupt() {
	c.woken = true
	_ = c.net.SetReadDeadline(past)
}

// forgetDeadline is for whoever reads, where another may have set the deadline.
// c.mu is held.
func (c *conn) forgetDeadline() {
	if c.woken {
		c.woken, c.deadline = false, time.Time{}
	}
}
