package server

import (
	"bytes"
	"fmt"
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
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, server: l.server}, nil
}

// conn bounds how long each write may take, so that a reader who stops reading
// does not keep a goroutine: http.Server.WriteTimeout counts from the request,
// and would cut off a call that waits. It also answers requests that net/http
// cannot parse with a problem document.
type conn struct {
	net.Conn
	server *Server
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
	body, _ := encode(lockapi.Invalid("request", "%s", reason))
	defer body.release()
	header := http.Header{}
	s.stamp(header)
	header.Set("Connection", "close")
	header.Set("Content-Type", typeProblem)
	header.Set("Content-Length", fmt.Sprint(body.Len()))
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var reply bytes.Buffer
	reply.WriteString(cannedStatus + "\r\n")
	_ = header.Write(&reply)
	reply.WriteString("\r\n")
	reply.Write(body.Bytes())
	s.metrics.count("other", "other", http.StatusBadRequest, 0)
	return reply.Bytes()
}
