package rafttransport

import (
	"net"
	"sync/atomic"
	"time"
)

// scaledConn extends the library's deadlines by the time that a message needs on a
// slow or long link. The library gives each message Timeout, large or small. A
// follower that lacks a few large entries would never get them: it is sent the
// same message again and again, each time over a new connection, which is slow at
// first.
//
// One goroutine writes, and one reads; SetDeadline is the writer's.
type scaledConn struct {
	net.Conn
	until   time.Time // deadline of the write
	both    bool      // it is the read's as well
	written atomic.Int64
	before  int64 // bytes written between the last two calls of SetReadDeadline
}

// bytesPerSecond is the least speed at which a message arrives.
const bytesPerSecond = 256 << 10

func extra(bytes int64) time.Duration { return time.Duration(bytes) * time.Second / bytesPerSecond }

func (c *scaledConn) SetDeadline(t time.Time) error {
	c.until, c.both = t, true
	c.written.Store(0)
	return c.Conn.SetDeadline(t)
}

func (c *scaledConn) SetWriteDeadline(t time.Time) error {
	c.until, c.both = t, false
	return c.Conn.SetWriteDeadline(t)
}

// SetReadDeadline is for the next answer of a pipeline. Two messages may be under way
// (MaxRPCsInFlight), so the one that it answers may have been written earlier.
func (c *scaledConn) SetReadDeadline(t time.Time) error {
	n := c.written.Swap(0)
	t = t.Add(extra(c.before + n))
	c.before = n
	return c.Conn.SetReadDeadline(t)
}

func (c *scaledConn) Write(p []byte) (int, error) {
	c.written.Add(int64(len(p)))
	c.until = c.until.Add(extra(int64(len(p))))
	set := c.Conn.SetWriteDeadline
	if c.both {
		set = c.Conn.SetDeadline
	}
	if err := set(c.until); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
