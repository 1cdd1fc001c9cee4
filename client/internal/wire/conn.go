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
	"time"
)

var (
	// ErrLate reports an answer that was not complete in time.
	ErrLate = fmt.Errorf("the answer did not come in time: %w", context.DeadlineExceeded)

	// ErrStalled reports an answer that began but did not continue.
	ErrStalled = errors.New("the answer stalled: its rest did not come")

	errLongHeader = errors.New("the answer's header is too long")
)

// stallTime is how long the next part of an answer that has begun may take. A link
// that carries no large packets loses them all.
const stallTime = 2 * time.Second

// mostHeader bounds the status line and headers of an answer, including its
// interim answers.
const mostHeader = 256 << 10

// conn is a connection of any kind, used by one exchange at a time.
type conn struct {
	net.Conn
	layers
	limit io.LimitedReader
	in    *bufio.Reader    // of limit
	whole io.LimitedReader // of in: what is left of a plain answer
	out   []byte           // a request being put together
	used  bool             // an exchange was made over it
	since time.Time        // idle since
	rest  rest             // of the answer that has begun
}

// rest is what bounds the reading of an answer that has begun. Its zero value bounds
// nothing.
type rest struct {
	deadline time.Time
	ctx      context.Context
	watchdog *Watchdog
	stalled  bool
}

func newConn(nc net.Conn) *conn {
	c := &conn{Conn: nc, layers: layersOf(nc)}
	c.limit.R = c
	c.in = bufio.NewReader(&c.limit)
	c.whole.R = c.in
	return c
}

// Read reads from the connection. The next part of an answer that has begun has
// stallTime to come.
func (c *conn) Read(b []byte) (int, error) {
	r := &c.rest
	if r.deadline.IsZero() {
		return c.Conn.Read(b)
	}
	at := time.Now().Add(stallTime)
	if r.deadline.Before(at) {
		at = r.deadline
	}
	_ = c.SetReadDeadline(at)
	over := r.ctx.Err() != nil || r.watchdog.ended() != nil
	if over { // SetReadDeadline may have undone the cut
		c.cut()
	}
	n, err := c.Conn.Read(b)
	r.stalled = errors.Is(err, os.ErrDeadlineExceeded) && !over && at.Before(r.deadline)
	return n, err
}

// longAgo is a deadline that ends what is under way.
var longAgo = time.Unix(1, 0)

// exchange sends the request and reads the answer into buf. The watchdog lasts
// until the first byte of the answer. With an answer, again means that the
// connection may be reused. With an error, it means that the connection had
// been idle and no byte of an answer arrived, as when the peer closes idle
// connections.
func (c *conn) exchange(ctx context.Context, q *Request, deadline time.Time, buf *bytes.Buffer, most int64) (a Answer, again bool, err error) {
	watchdog := &q.watchdog
	w := firstByteWait{c: c, ctx: ctx, deadline: deadline, watchdog: watchdog}
	if err := w.begin(); err != nil {
		return a, c.used, err
	}
	stop := context.AfterFunc(ctx, c.cut)
	w.follow()
	reused := c.used
	c.used, c.limit.N = true, mostHeader
	sent := c.send(q, &w)
	a, last, err := c.receive(q.Method, &w, buf, most)
	stalled := c.rest.stalled
	c.rest = rest{}
	whole := stop()
	if w.unlink != nil {
		whole = w.unlink() && whole
	}
	switch {
	case err == nil:
		return a, whole && sent == nil && !last && c.in.Buffered() == 0, nil
	case sent != nil:
		err = sent // it explains the failure to read
	}
	switch {
	case ctx.Err() != nil:
		return a, false, ctx.Err()
	case watchdog.ended() != nil:
		return a, false, watchdog.ended()
	case stalled:
		return a, false, ErrStalled
	case errors.Is(err, os.ErrDeadlineExceeded):
		return a, false, ErrLate
	}
	return a, reused && c.limit.N == mostHeader, err
}

// cut ends what is under way. It may be called at any time.
func (c *conn) cut() { _ = c.SetDeadline(longAgo) }

// send writes the request in one piece. An error does not mean that there is no
// answer: a server may refuse a body that it has not read to its end.
func (c *conn) send(q *Request, w *firstByteWait) error {
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
	return w.write(b)
}

// receive reads an answer to its end. last means that no answer can follow it.
func (c *conn) receive(method string, w *firstByteWait, buf *bytes.Buffer, most int64) (a Answer, last bool, err error) {
	for {
		if _, err = c.in.Peek(1); err == nil {
			break
		}
		if !w.goOn(err) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return a, false, err
		}
	}
	there, _ := c.in.Peek(c.in.Buffered())
	p, ok := readPlain(there)
	if !ok || p.size+p.length > len(there) {
		w.over() // there is more to read
	}
	if ok && method != http.MethodHead && int64(p.length) < most {
		a, err = c.receivePlain(p, buf)
		return a, false, err
	}
	resp, err := c.head(method)
	if err != nil {
		return a, false, err
	}
	c.limit.N = math.MaxInt64
	a, err = ReadAnswer(resp, buf, most)
	return a, resp.Close || int64(len(a.Body)) == most, err // there may be more
}

// receivePlain reads an answer after its head was parsed.
func (c *conn) receivePlain(p plain, buf *bytes.Buffer) (Answer, error) {
	c.limit.N, c.whole.N = math.MaxInt64, int64(p.size+p.length)
	start := buf.Len()
	makeRoom(buf, c.whole.N)
	_, err := buf.ReadFrom(&c.whole)
	if err == nil && c.whole.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return Answer{}, err
	}
	whole := buf.Bytes()[start:]
	return Answer{p.status, Header(whole[p.fields : p.size-len(lineEnd)]), whole[p.size:], false}, nil
}

// head reads the status and headers of the final answer, and skips interim
// ones.
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
