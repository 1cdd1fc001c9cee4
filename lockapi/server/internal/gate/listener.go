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
			return &conn{Conn: c, conns: l.conns}, nil
		}
		l.spare.admit(c)
	}
}

// conn is an admitted connection.
type conn struct {
	net.Conn
	conns *Conns

	waiting atomic.Pointer[Call] // call that waits on it; nil for none

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

// CloseWrite lets a connection end without losing its last reply.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

// SyscallConn gives access to reads and writes that do not block.
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
