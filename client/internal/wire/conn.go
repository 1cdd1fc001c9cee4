package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"
)

var (
	// ErrLate says that the answer was not there in time.
	ErrLate = fmt.Errorf("the answer did not come in time: %w", context.DeadlineExceeded)

	errLongHeader = errors.New("the answer's header is too long")
)

// mostHeader bounds an answer's status line and headers, with those of the interim
// answers before it.
const mostHeader = 256 << 10

// conn is a connection, used by one exchange at a time.
type conn struct {
	net.Conn
	raw   syscall.RawConn // nil where the connection has none
	limit io.LimitedReader
	in    *bufio.Reader // of limit
	out   []byte        // a request being put together
	used  bool          // an exchange was made over it
	since time.Time     // idle since
}

func newConn(nc net.Conn) *conn {
	c := &conn{Conn: nc}
	if sc, ok := nc.(syscall.Conn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	c.limit.R = nc
	c.in = bufio.NewReader(&c.limit)
	return c
}

// longAgo is a deadline that ends what is under way.
var longAgo = time.Unix(1, 0)

// exchange sends the request and reads the answer. again says, with an answer,
// that the connection may be used again; with an error, that it was idle before
// and nothing of an answer has arrived, as when the other side closes what is
// idle.
func (c *conn) exchange(ctx context.Context, q *Request, deadline time.Time, body *bytes.Buffer, most int64) (resp *http.Response, again bool, err error) {
	if err := c.SetDeadline(deadline); err != nil {
		return nil, c.used, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(longAgo) })
	reused := c.used
	c.used, c.limit.N = true, mostHeader
	sent := c.send(q)
	resp, err = c.receive(q.Method, body, most)
	whole := stop()
	switch {
	case err == nil:
		return resp, whole && sent == nil && !resp.Close && c.in.Buffered() == 0, nil
	case sent != nil:
		err = sent // what was to be read is no wonder
	}
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, false, ErrLate
	}
	return nil, reused && c.limit.N == mostHeader, err
}

// send writes the request in one piece. An error does not mean that there is no
// answer: a server may refuse a body that it has not read to its end.
func (c *conn) send(q *Request) error {
	b := append(c.out[:0], q.Method...)
	b = append(b, ' ')
	b = append(b, q.Target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, q.Host...)
	b = append(b, "\r\n"...)
	b = append(b, q.Header...)
	if q.Body != nil || q.Method == http.MethodPost || q.Method == http.MethodPut {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(q.Body)), 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, "\r\n"...)
	b = append(b, q.Body...)
	if cap(b) <= 8<<10 {
		c.out = b
	}
	_, err := c.Write(b)
	return err
}

// receive reads an answer to its end.
func (c *conn) receive(method string, body *bytes.Buffer, most int64) (*http.Response, error) {
	resp, err := c.head(method)
	if err != nil {
		return nil, err
	}
	c.limit.N = math.MaxInt64
	n, err := body.ReadFrom(io.LimitReader(resp.Body, most))
	if n == most {
		resp.Close = true // there may be more
	}
	return resp, err
}

// head reads an answer's status and headers, after those that are interim.
func (c *conn) head(method string) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
		switch {
		case err != nil && c.limit.N <= 0:
			return nil, errLongHeader
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the answer switches protocols unasked")
		case resp.StatusCode < 100 || resp.StatusCode > 199:
			return resp, nil
		}
	}
}
