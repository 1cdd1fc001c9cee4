//go:build unix

package wire

import (
	"io"
	"syscall"
)

// openRaw sets up direct system calls if the connection supports them.
func (c *conn) openRaw() {
	nc, ok := c.net.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := nc.SyscallConn(); err == nil {
		c.raw, c.tryRead, c.tryWrite = raw, c.readNow, c.writeNow
	}
}

// readNow reads what has arrived. It reports whether it read something, or got
// an end or an error.
func (c *conn) readNow(fd uintptr) bool {
	b := buffers.Get().(*buffer)
	n, err := syscall.Read(int(fd), b[:])
	for err == syscall.EINTR {
		n, err = syscall.Read(int(fd), b[:])
	}
	if n > 0 {
		c.in, c.lent, c.inErr = b[:n], b, nil
		return true
	}
	buffers.Put(b)
	if c.inErr = err; err == nil {
		c.inErr = io.EOF
	}
	return err != syscall.EAGAIN
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
