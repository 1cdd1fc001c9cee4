//go:build unix

package wire

import (
	"net"
	"syscall"
)

// rawOf is the socket of a connection, or nil where it has none.
func rawOf(nc net.Conn) syscall.RawConn {
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// isQuiet says whether there is nothing to be read from an open socket, at this
// instant. What there is it may use up: the connection is of no use then.
func isQuiet(raw syscall.RawConn) bool {
	quiet := false
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		quiet = err == syscall.EAGAIN
	})
	return err == nil && quiet
}
