package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
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
		s.tlsOwn = withProtocols(s.TLS)
		if choose := s.TLS.GetConfigForClient; choose != nil {
			s.tlsOwn.GetConfigForClient = chosen(choose)
		}
	})
	return s.tlsOwn
}

func withProtocols(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.NextProtos = slices.Clone(protocols)
	return c
}

// chosen gives the configurations that are chosen for clients the server's
// protocols. As a rule it is the same one each time, and copied once.
func chosen(choose func(*tls.ClientHelloInfo) (*tls.Config, error)) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	type copied struct{ from, to *tls.Config }
	var latest atomic.Pointer[copied]
	return func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := choose(hello)
		if c == nil || err != nil {
			return nil, err
		}
		if known := latest.Load(); known != nil && known.from == c {
			return known.to, nil
		}
		own := withProtocols(c)
		latest.Store(&copied{c, own})
		return own, nil
	}
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
		c.refuseHandshake(err)
		return false
	}
	state := c.tls.ConnectionState()
	c.tlsState = &state
	c.mu.Lock()
	c.until = time.Now().Add(c.server.HeaderTimeout)
	c.mu.Unlock()
	return c.net.SetWriteDeadline(time.Time{}) == nil
}

// refuseHandshake has a client whose handshake failed learn why: one that speaks
// HTTP without TLS in a way that it understands, any other by TLS's own word for
// it, which closing does not cut off though it may have sent a request.
func (c *conn) refuseHandshake(err error) {
	if t := net.Error(nil); errors.As(err, &t) && t.Timeout() {
		return
	}
	c.net = c.under
	record, plain := errors.AsType[tls.RecordHeaderError](err)
	if plain && (!isMethod(record.RecordHeader) ||
		c.write(c.server.Refuse(http.StatusBadRequest, "the request came without TLS, which this port speaks; its URLs begin with https://")) != nil) {
		return
	}
	c.linger()
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
