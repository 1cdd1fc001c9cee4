package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"
)

// handshakeBytes is what a handshake takes besides what its client has sent,
// about.
const handshakeBytes = 8 << 10

// protocols are what the server offers by ALPN. A client that speaks none of
// them, and says so, is refused by its handshake (RFC 7301, 3.2).
var protocols = []string{"http/1.1"}

// tlsConfig is the server's, nil where it speaks no TLS.
func (s *Server) tlsConfig() *tls.Config {
	if s.TLS == nil {
		return nil
	}
	s.tlsOnce.Do(func() {
		s.tlsOwn = s.TLS.Clone()
		s.tlsOwn.NextProtos = slices.Clone(protocols)
	})
	return s.tlsOwn
}

// secure lays TLS over the connection.
func (c *conn) secure(config *tls.Config) {
	c.meter = &meter{Conn: c.under}
	c.tls = tls.Server(c.meter, config)
	c.net = c.tls
}

// handshake opens TLS, where there is any, within the time that a request's
// head has, counted from the connection's first moment. Until then the
// connection counts as one that waits for a request, and what its client has
// sent as half of one.
func (c *conn) handshake() (opened bool) {
	if c.tls == nil {
		return true
	}
	// Of writing, too: a client need not read what it is sent.
	if c.net.SetWriteDeadline(c.deadline) != nil {
		return false
	}
	c.meter.of = c
	err := c.tls.Handshake()
	c.meter.of = nil
	if c.server.half.done(c) {
		return false
	}
	if err != nil {
		c.refusePlain(err)
		return false
	}
	state := c.tls.ConnectionState()
	c.tlsState = &state
	c.mu.Lock()
	c.until = time.Now().Add(c.server.HeaderTimeout)
	c.mu.Unlock()
	return c.net.SetWriteDeadline(time.Time{}) == nil
}

// refusePlain answers a client that speaks HTTP without TLS, in a way that it
// understands.
func (c *conn) refusePlain(err error) {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || !isMethod(record.RecordHeader) {
		return
	}
	c.net = c.under
	if c.write(c.server.Refuse(http.StatusBadRequest, "the request came without TLS, which this port speaks; its URLs begin with https://")) == nil {
		c.linger()
	}
}

// isMethod reports whether what should be the header of a record begins a
// request.
func isMethod(header [5]byte) bool {
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "DELET", "PATCH", "OPTIO"}, string(header[:]))
}

// meter is what TLS reads from and writes to. It counts what is read for a
// handshake.
type meter struct {
	net.Conn
	of   *conn // nil but during the handshake
	read int
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if m.of != nil {
		m.read += n
		m.of.server.half.holds(m.of, handshakeBytes+m.read, false)
	}
	return n, err
}
