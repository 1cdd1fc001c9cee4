//go:build unix

package wire

import (
	"io"
	"syscall"
)

// openRaw has the connection read and written by system calls of our own, where
// it is one of the system's.
func (c *conn) openRaw() {
	nc, ok := c.net.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := nc.SyscallConn(); err == nil {
		c.raw, c.tryRead, c.tryWrite = raw, c.readNow, c.writeNow
	}
}

// readNow reads what is there, and reports whether there was anything to learn.
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

// writeNow writes what the system takes at once of c.out. It does not wait.
func (c *conn) writeNow(fd uintptr) bool {
	n, err := syscall.Write(int(fd), c.out)
	for err == syscall.EINTR {
		n, err = syscall.Write(int(fd), c.out)
	}
	c.out = c.out[max(n, 0):] // an error is met again by whoever writes the rest
	return true
}
