package wire

import (
	"io"
	"sync"
)

// buffer is the buffer for requests. Nearly all fit.
type buffer [4 << 10]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// release returns the buffer to the pool. The bytes in it are gone or consumed.
func (c *conn) release() {
	c.in = nil
	if c.lent != nil {
		buffers.Put(c.lent)
		c.lent = nil
	}
}

func (c *conn) consume(n int) {
	if c.in = c.in[n:]; len(c.in) == 0 {
		c.release()
	}
}

// fill waits for more bytes. If the input is empty, it usually holds a buffer only
// once they have arrived.
func (c *conn) fill() error {
	if len(c.in) > 0 || c.input == nil {
		return c.more()
	}
	if err := c.input.Read(c.tryRead); err != nil {
		return err
	}
	return c.inErr
}

// more appends more bytes to the input. The size of a head bounds it.
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

// held returns about how much memory the unconsumed input takes.
func (c *conn) held() int {
	if n := cap(c.in); n > len(buffer{}) {
		return n + len(buffer{})
	}
	return len(buffer{})
}
