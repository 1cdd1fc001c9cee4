package wire_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A plain request to a port that speaks TLS is read to its end. Closing earlier
// would reset the connection, and could lose the reply.
func TestPlainRequestIsReadToItsEnd(t *testing.T) {
	unread := make(chan int, 10)
	h := start(t, func() (net.Listener, func() (net.Conn, error)) {
		ours, _ := configs()
		l, dial := tcp()
		return secured{wrapping{l, func(c net.Conn) net.Conn { return &measuredConn{c.(*net.TCPConn), unread} }}, ours}, dial
	}, echo)
	c := h.connect(t).Conn
	if _, err := io.WriteString(c, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n"+strings.Repeat("x", 60000)); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if reply, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(reply), "HTTP/1.1 400 ") {
		t.Errorf("%.40q, %v", reply, err)
	}
	if n := <-unread; n > 0 {
		t.Errorf("the connection is closed with %d unread bytes", n)
	}
}

// measuredConn reports how many bytes are unread when it is closed.
type measuredConn struct {
	*net.TCPConn
	unread chan int
}

func (c *measuredConn) Close() error {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
				c.unread <- n
			}
		})
	}
	return c.TCPConn.Close()
}
