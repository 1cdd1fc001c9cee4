package server

import (
	"bytes"
	"container/list"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// listener hands out connections that hold what net/http leaves open.
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
		l.server.turnAway(c)
	}
}

// A connection that is turned away gets its answer in time, or none: these
// connections come on top of max-connections.
const (
	mostTurnedAway = 32
	turnAwayTime   = time.Second
)

// turnAway answers a connection for which there is no room, whatever it asks,
// and closes it. It does not block.
func (s *Server) turnAway(c net.Conn) {
	select {
	case s.turning <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	go func() {
		defer func() { <-s.turning }()
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(turnAwayTime))
		e := lockapi.Errorf(lockapi.CodeTooMany, "quota max-connections is used up: this replica has %d open connections, each with a call under way; "+
			"make fewer calls that wait at once, ask another replica, or have the quota raised", s.conns.most)
		if _, err := c.Write(s.canned("429 Too Many Requests", e)); err != nil {
			return
		}
		if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			// With what the caller sent unread, closing would cut off the answer.
			_, _ = io.CopyN(io.Discard, c, maxHeaderBytes+lockapi.MaxBodyBytes)
		}
	}()
}

// conn bounds how long each write may take, so that a reader who stops reading
// does not keep a goroutine: http.Server.WriteTimeout counts from the request,
// and would cut off a call that waits. It also answers requests that net/http
// cannot parse with a problem document.
type conn struct {
	net.Conn
	server *Server

	// Guarded by the mutex of server.conns.
	quiet *list.Element // among its quiet connections
	fresh bool          // no request has begun
	gone  bool          // it counts no more
	// leaving says that it was closed to make room.
	leaving bool
}

// Close is what net/http ends every connection with.
func (c *conn) Close() error {
	defer c.server.conns.left(c)
	return c.Conn.Close()
}

// What net/http writes, in one piece and before any handler, in reply to a
// request that it cannot parse (http.conn.serve). The reason is empty or
// begins with ": ".
const (
	cannedStatus = "HTTP/1.1 400 Bad Request"
	cannedRest   = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" + "400 Bad Request"
)

func (c *conn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.server.opts.WriteTimeout)); err != nil {
		return 0, err
	}
	reason, canned := cannedReason(b)
	if !canned {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(c.server.unparsable(reason)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CloseWrite lets net/http end a connection without cutting off its last reply.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// cannedReason recognises net/http's own reply with status 400. No reply of a
// handler looks like it: those carry further headers.
func cannedReason(b []byte) (reason string, ok bool) {
	rest, ok := bytes.CutPrefix(b, []byte(cannedStatus))
	if !ok {
		return "", false
	}
	before, after, ok := strings.Cut(string(rest), cannedRest)
	if !ok || before != after || strings.Contains(before, "\r\n") {
		return "", false
	}
	return strings.TrimPrefix(before, ": "), true
}

// unparsable is the whole reply to a request that net/http could not parse.
func (s *Server) unparsable(reason string) []byte {
	if reason == "" {
		reason = "the request line or a header is malformed; is a % in the URL not followed by two hexadecimal digits?"
	}
	return s.canned("400 Bad Request", lockapi.Invalid("request", "%s", reason))
}

// canned is a whole reply without a request, the last one of its connection.
func (s *Server) canned(status string, e *lockapi.Error) []byte {
	body, _ := encodeProblem(e)
	defer body.release()
	header := http.Header{}
	s.stamp(header)
	header.Set("Connection", "close")
	header["Content-Type"] = typeProblem
	header.Set("Content-Length", fmt.Sprint(body.Len()))
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if retry := retryAfter(e); retry > 0 {
		header.Set("Retry-After", fmt.Sprint(retry))
	}
	var reply bytes.Buffer
	reply.WriteString("HTTP/1.1 " + status + "\r\n")
	_ = header.Write(&reply)
	reply.WriteString("\r\n")
	reply.Write(body.Bytes())
	s.metrics.count("other", "other", e.Code.Status(), 0)
	return reply.Bytes()
}
