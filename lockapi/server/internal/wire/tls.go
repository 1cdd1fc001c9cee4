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

func (c *conn) secure() {
	c.meter = &meter{Conn: c.under, timeout: c.server.WriteTimeout}
	c.tls = tls.Server(c.meter, c.server.TLS)
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
