package wire

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// layers describes the layers of a connection.
type layers struct {
	// bare is set if the connection is the socket itself, without a layer such
	// as TLS.
	bare bool
	base net.Conn        // the innermost connection
	raw  syscall.RawConn // of base; nil if it cannot be read without waiting
}

func layersOf(nc net.Conn) layers {
	base := nc
	for {
		outer, ok := base.(interface{ NetConn() net.Conn }) // *tls.Conn, for one
		if !ok || outer.NetConn() == nil {
			break
		}
		base = outer.NetConn()
	}
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return layers{bare: true, base: base, raw: rawOf(base)}
	}
	return layers{base: base, raw: rawOf(base)}
}

// trustTime is how long an idle connection counts as open if its socket cannot
// be checked. Servers keep idle connections for longer.
const trustTime = time.Second

// open reports whether an idle connection may be used: the peer has not closed
// it, and has sent no unrequested bytes. It does not block.
//
// A layer may hold bytes that it has read from its socket, as crypto/tls does.
// Such bytes would be mistaken for the answer to the next request. Therefore
// open checks the layer, and then the socket beneath it.
func (c *conn) open() bool {
	if !c.bare && !c.silent() {
		return false
	}
	if c.raw == nil {
		return time.Since(c.since) < trustTime
	}
	return isQuiet(c.raw)
}

// silent reports whether a read that does not wait finds no bytes.
func (c *conn) silent() bool {
	if c.SetReadDeadline(longAgo) != nil {
		return false
	}
	var b [1]byte
	n, err := c.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// Close closes the connection beneath the layers, without their closing
// messages: crypto/tls waits up to five seconds for a peer that does not read.
// Between two exchanges these messages are not needed.
func (c *conn) Close() error { return c.base.Close() }
