package wire

import (
	"io"
	"sync"
)

// buffer is what requests are read into. Nearly all fit.
type buffer [4 << 10]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// release gives the buffer back. What was read is gone, or was taken.
func (c *conn) release() {
	c.in = nil
	if c.lent != nil {
		buffers.Put(c.lent)
		c.lent = nil
	}
}

// take takes n bytes of what was read.
func (c *conn) take(n int) {
	if c.in = c.in[n:]; len(c.in) == 0 {
		c.release()
	}
}

// fill waits for more bytes. Where none are left, a buffer is held only once
// they are there.
func (c *conn) fill() error {
	if c.raw == nil || len(c.in) > 0 {
		return c.more()
	}
	if err := c.raw.Read(c.tryRead); err != nil {
		return err
	}
	return c.inErr
}

// more reads more bytes behind those that were read, of which there may be as
// many as a head may have.
func (c *conn) more() error {
	if c.in == nil {
		c.lent = buffers.Get().(*buffer)
		c.in = c.lent[:0]
	}
	if len(c.in) == cap(c.in) {
		grown := make([]byte, len(c.in), 2*cap(c.in)+len(c.lent))
		copy(grown, c.in)
		c.in = grown
	}
	n, err := c.net.Read(c.in[len(c.in):cap(c.in)])
	if c.in = c.in[:len(c.in)+n]; len(c.in) == 0 {
		c.release()
	}
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// held is what the bytes that were read and not taken keep, about.
func (c *conn) held() int {
	if n := cap(c.in); n > len(buffer{}) {
		return n + len(buffer{})
	}
	return len(buffer{})
}
