//go:build unix

package wire

import (
	"net"
	"syscall"
)

// rawOf returns the socket of a connection, or nil if it has none.
func rawOf(nc net.Conn) syscall.RawConn {
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// isQuiet reports whether an open socket has no bytes to read at this instant.
// It may consume bytes: a connection that is not quiet must not be used
// further.
func isQuiet(raw syscall.RawConn) bool {
	quiet := false
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		quiet = err == syscall.EAGAIN
	})
	return err == nil && quiet
}
