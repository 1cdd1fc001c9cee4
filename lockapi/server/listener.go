package server

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// listener hands out connections for which there is room. The others go to the
// spare ones.
type listener struct {
	net.Listener
	server *Server
}

func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.server.conns.admit() {
			return &conn{Conn: c, server: l.server}, nil
		}
		l.server.spare.admit(c)
	}
}

// conn is a connection that was admitted.
type conn struct {
	net.Conn
	server *Server

	waiting atomic.Pointer[exchange] // the call that waits on it; nil for none

	// Guarded by the mutex of server.conns.
	prev, next *conn // its neighbours among the idle ones, or those with a call
	idle       bool
	gone       bool // it counts no more
	evicting   bool // it was closed to make room
}

// Close is what every connection ends with.
func (c *conn) Close() error {
	defer c.server.conns.left(c)
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

// refuse is the whole reply to what is not a request.
func (s *Server) refuse(status int, reason string) []byte {
	if status == http.StatusTooManyRequests {
		return s.canned(status, errCrowded())
	}
	if reason == "" {
		reason = "the request line or a header is malformed; is a % in the URL not followed by two hexadecimal digits?"
	}
	return s.canned(status, lockapi.Invalid("request", "%s", reason))
}

// canned is a whole reply without a request, the last one of its connection.
func (s *Server) canned(status int, e *lockapi.Error) []byte {
	problem := e.Problem()
	problem.Status = status
	body, _ := encodeProblem(problem)
	defer body.release()
	header := http.Header{}
	s.stamp(header)
	if s.isClosed() { // there is no telling who calls
		delete(header, lockapi.HeaderMaster)
		delete(header, lockapi.HeaderCell)
	}
	header["Cache-Control"], header["Vary"] = noStore, varyCaller
	header.Set("Connection", "close")
	header["Content-Type"] = typeProblem
	header.Set("Content-Length", fmt.Sprint(body.Len()))
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if retry := retryAfter(e); retry > 0 {
		header.Set("Retry-After", fmt.Sprint(retry))
	}
	var reply bytes.Buffer
	fmt.Fprintf(&reply, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = header.Write(&reply)
	reply.WriteString("\r\n")
	reply.Write(body.Bytes())
	s.metrics.count("other", "other", status, 0)
	return reply.Bytes()
}
