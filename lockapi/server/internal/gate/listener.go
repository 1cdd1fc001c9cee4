package gate

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// listener hands out connections for which there is room. The others go to the
// spare ones.
type listener struct {
	net.Listener
	conns *Conns
	spare *Reserve
}

// Listen returns a listener whose connections p counts. Where it has no room they
// become spare ones.
func (p *Conns) Listen(l net.Listener, spare *Reserve) net.Listener {
	return listener{l, p, spare}
}

func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.conns.admit() {
			return &conn{Conn: c, conns: l.conns}, nil
		}
		l.spare.admit(c)
	}
}

// conn is a connection that was admitted.
type conn struct {
	net.Conn
	conns *Conns

	waiting atomic.Pointer[Call] // the call that waits on it; nil for none

	// Guarded by conns.mu.
	prev, next *conn // its neighbours among the idle ones, or those with a call
	idle       bool
	gone       bool // it counts no more
	evicting   bool // it was closed to make room
}

// Close is what every connection ends with.
func (c *conn) Close() error {
	defer c.conns.left(c)
	return c.Conn.Close()
}

// CloseWrite lets a connection end without cutting off its last reply.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

// SyscallConn lets a connection be read and written without waiting.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return syscallConn(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func syscallConn(c net.Conn) (syscall.RawConn, error) {
	if inner, ok := c.(syscall.Conn); ok {
		return inner.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
