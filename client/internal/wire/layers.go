package wire

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// layers says what a connection is made of.
type layers struct {
	// bare connections are the operating system's own: nothing lies between
	// here and the socket.
	bare bool
	base net.Conn        // the innermost that can be seen
	raw  syscall.RawConn // of base; nil where it has none that can be looked at
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

// trustTime is for how long an idle connection whose socket cannot be looked at
// counts as open. Servers keep what is idle for longer.
const trustTime = time.Second

// open says whether an idle connection may be used: the other side has neither
// closed it nor sent what nobody asked for. It does not block.
//
// A layer may have read from its socket what it has not handed on, as
// crypto/tls does. What is there would be taken for the answer to the next
// request. So the layer is asked, and then the socket beneath it.
func (c *conn) open() bool {
	if !c.bare && !c.silent() {
		return false
	}
	if c.raw == nil {
		return time.Since(c.since) < trustTime
	}
	return isQuiet(c.raw)
}

// silent says whether a read finds nothing that it need not wait for.
func (c *conn) silent() bool {
	if c.SetReadDeadline(longAgo) != nil {
		return false
	}
	var b [1]byte
	n, err := c.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// Close closes the connection beneath the layers, without their closing
// messages: crypto/tls waits up to five seconds for a peer that does not read
// its own, and nobody needs it between two exchanges.
func (c *conn) Close() error { return c.base.Close() }
