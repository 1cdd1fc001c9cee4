//go:build !unix

package wire

import (
	"net"
	"syscall"
)

// rawOf is nil: a socket cannot be read here without waiting.
func rawOf(net.Conn) syscall.RawConn { return nil }

func isQuiet(syscall.RawConn) bool { return false }
