//go:build unix

package wire

import (
	"io"
	"syscall"
)

// openRaw sets up direct system calls if the connection supports them.
func (c *conn) openRaw() {
	nc, ok := c.under.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := nc.SyscallConn()
	if err != nil {
		return
	}
	c.input, c.tryRead = raw, c.readNow
	if c.tls == nil {
		c.raw, c.tryWrite = raw, c.writeNow
	}
}

// readNow reads what has arrived. It reports whether it read something, or got
// an end or an error. So a goroutine does not wait for a request inside package
// tls, and its stack stays small: package tls is not even asked while it can have
// nothing.
func (c *conn) readNow(fd uintptr) bool {
	if c.drained && !c.peeked && !hasArrived(fd) {
		c.peeked = true
		return false
	}
	b := buffers.Get().(*buffer)
	var n int
	if c.tls == nil {
		n, c.inErr = readFD(fd, b[:])
	} else {
		c.meter.fd, c.meter.now = fd, true
		n, c.inErr = c.tls.Read(b[:])
		c.meter.now = false
		c.drained, c.peeked = n == 0 && c.inErr == syscall.EAGAIN, false
	}
	if n > 0 {
		c.in, c.lent, c.inErr = b[:n], b, nil
		return true
	}
	buffers.Put(b)
	if c.inErr == nil {
		c.inErr = io.ErrNoProgress
	}
	return c.inErr != syscall.EAGAIN
}

// hasArrived reports whether a read would return something: bytes, an end or an
// error.
func hasArrived(fd uintptr) bool {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err != syscall.EAGAIN
}

// drain reads what package tls has read but not returned, while this goroutine's
// stack is large anyway. The goroutine that watches next then need not ask
// package tls before it waits.
func (c *conn) drain() {
	if c.tls != nil && c.input != nil && len(c.in) == 0 {
		_ = c.input.Read(func(fd uintptr) bool { c.readNow(fd); return true })
	}
}

// readFD reads what has arrived. The error EAGAIN is a temporary net.Error, so
// that package tls can continue after it.
func readFD(fd uintptr, b []byte) (int, error) {
	n, err := syscall.Read(int(fd), b)
	for err == syscall.EINTR {
		n, err = syscall.Read(int(fd), b)
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

// writeNow writes as much of c.out as the system accepts at once. It does not
// wait.
func (c *conn) writeNow(fd uintptr) bool {
	n, err := syscall.Write(int(fd), c.out)
	for err == syscall.EINTR {
		n, err = syscall.Write(int(fd), c.out)
	}
	c.out = c.out[max(n, 0):] // an error will recur when the rest is written
	return true
}
