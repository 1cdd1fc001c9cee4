package gate

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// listener returns the connections for which there is room and makes the others
// spare connections.
type listener struct {
	net.Listener
	conns *Conns
	spare *Reserve
}

// Listen returns a listener. p counts its connections. Connections without
// room become spare ones.
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
			return &conn{netConn: netConn{c}, conns: l.conns}, nil
		}
		l.spare.admit(c)
	}
}

type conn struct {
	netConn
	conns *Conns

	waiting atomic.Pointer[Call] // call that waits on it; nil for none
	silent  atomic.Int64         // since when its reply waits for the caller, in Unix nanoseconds; 0 if it does not

	// Guarded by conns.mu.
	prev, next *conn // neighbors in the ring of idle or working connections
	idle       bool
	gone       bool // no longer counted
	evicting   bool // closed to make room
}

// Close closes the connection and frees its place.
func (c *conn) Close() error {
	defer c.conns.left(c)
	return c.Conn.Close()
}

// netConn is a connection with the methods that package wire looks for.
type netConn struct{ net.Conn }

// CloseWrite lets a connection end without losing its last reply.
func (c netConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SyscallConn gives access to reads and writes that do not block.
func (c netConn) SyscallConn() (syscall.RawConn, error) {
	if inner, ok := c.Conn.(syscall.Conn); ok {
		return inner.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
