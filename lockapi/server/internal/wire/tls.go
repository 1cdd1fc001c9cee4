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

// handshakeBytes is about what a handshake needs in addition to the client's
// input.
const handshakeBytes = 8 << 10

// protocols are the server's ALPN protocols. A client that offers only other
// protocols is refused in the handshake (RFC 7301, 3.2).
var protocols = []string{"http/1.1"}

// tlsConfig returns the server's configuration, or nil without TLS.
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

// chosen adds the server's protocols to the configurations chosen for clients.
// Usually it is the same configuration each time, and copied once.
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

// secure sets up TLS over the connection.
func (c *conn) secure(config *tls.Config) {
	c.meter = &meter{Conn: c.under, timeout: c.server.WriteTimeout}
	c.tls = tls.Server(c.meter, config)
	c.net = c.tls
}

// handshake performs the TLS handshake, if there is TLS, within the time limit
// of a head, counted from the start of the connection. Until then the
// connection counts as waiting, and its input as an incomplete request.
func (c *conn) handshake() (opened bool) {
	if c.tls == nil {
		return true
	}
	// The deadline applies to writes, too: a client need not read.
	if c.net.SetWriteDeadline(c.deadline) != nil {
		return false
	}
	c.meter.of = c
	err := c.tls.Handshake()
	c.meter.of = nil
	if c.arrived() {
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

// refuseHandshake reports the reason for a failed handshake to the client. A
// client that speaks plain HTTP gets an HTTP reply, any other a TLS alert.
// Closing does not lose it even if the client has sent a request.
func (c *conn) refuseHandshake(err error) {
	if t := net.Error(nil); errors.As(err, &t) && t.Timeout() {
		return
	}
	c.net, c.tls = c.under, nil
	record, plain := errors.AsType[tls.RecordHeaderError](err)
	if plain && (!isMethod(record.RecordHeader) ||
		c.write(c.server.Refuse(http.StatusBadRequest, "the request was sent without TLS, but this port speaks TLS; use a URL with https://")) != nil) {
		return
	}
	c.linger()
}

// isMethod reports whether a supposed record header is the beginning of a plain
// request.
func isMethod(header [5]byte) bool {
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "DELET", "PATCH", "OPTIO"}, string(header[:]))
}

// meter is the connection below TLS. It counts the bytes read during a
// handshake.
type meter struct {
	net.Conn
	of   *conn // set only during the handshake
	read int
	fd   uintptr // of the connection, for a read that does not wait
	now  bool    // such a read is under way

	timeout time.Duration // of a write without a deadline
	bounded atomic.Bool   // there is a deadline for writes
}

func (m *meter) SetWriteDeadline(t time.Time) error {
	m.bounded.Store(!t.IsZero())
	return m.Conn.SetWriteDeadline(t)
}

// Write bounds what package tls writes by itself while it reads: the answer to
// a KeyUpdate, which the client need not read.
func (m *meter) Write(b []byte) (int, error) {
	if m.bounded.Load() {
		return m.Conn.Write(b)
	}
	_ = m.Conn.SetWriteDeadline(time.Now().Add(m.timeout))
	n, err := m.Conn.Write(b)
	if err == nil && !m.bounded.Load() {
		err = m.Conn.SetWriteDeadline(time.Time{})
	}
	return n, err
}

func (m *meter) Read(b []byte) (int, error) {
	if m.now {
		return readFD(m.fd, b)
	}
	n, err := m.Conn.Read(b)
	if m.of != nil {
		m.read += n
		m.of.holds(handshakeBytes+m.read, false)
	}
	return n, err
}
