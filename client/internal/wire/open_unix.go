//go:build unix

package wire

import "syscall"

// open says whether an idle connection may be used: the other side has neither
// closed it nor sent what nobody asked for. It does not block.
func (c *conn) open() bool {
	if c.raw == nil {
		return false
	}
	open := false
	err := c.raw.Control(func(fd uintptr) {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		open = err == syscall.EAGAIN
	})
	return err == nil && open
}
