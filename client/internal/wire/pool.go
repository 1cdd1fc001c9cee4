package wire

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"weak"
)

const (
	dialTime = 2 * time.Second
	probing  = 15 * time.Second // between two TCP keepalive probes
	// idleTime is how long an idle connection is kept at least; at most half as
	// long again. Servers keep it for longer.
	idleTime = 90 * time.Second
	// mostIdle bounds the idle connections to one address. A program has as
	// many as it had calls under way at once, and needs them again when all its
	// sessions come back.
	mostIdle = 1024
)

// Pool keeps connections for further exchanges. Its zero value is ready; it is
// safe for concurrent use.
type Pool struct {
	// Dial makes the connections, of any kind, such as crypto/tls's. By default
	// they are bare TCP. Its context ends when its time is over, so a handshake
	// should be part of Dial. Set it before the first exchange.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// DialTime bounds a call of Dial; 0 means 2 s.
	DialTime time.Duration

	mu     sync.Mutex         // guards the following
	idle   map[string][]*conn // by address, the one used last at the end
	reaper *time.Timer        // runs while there are idle connections
}

// Request is one request.
type Request struct {
	Method string
	Addr   string // host:port to dial
	Host   string // as the header shows it
	Target string // path and query, escaped
	Header []byte // further headers, each with its line end
	Body   []byte // nil for none
	// Within bounds the whole exchange, dialling included.
	Within time.Duration
	// Hedger, if set, is called when no byte of an answer has come within
	// Patience.
	Hedger   Hedger
	Patience time.Duration

	// Aside closes a connection that was dialled for this request after the
	// answer. So a client that only keeps a session alive keeps one connection.
	Aside bool

	watchdog Watchdog // of the exchange that is made
}

// Do makes one exchange. A Request is used for one exchange only. The answer is
// in memory that belongs to buf, with at most most bytes of its body.
//
// When ctx ends, Do closes the connection and returns ctx's error. The error
// wraps ErrLate if the answer is not complete in time. It is an *net.OpError
// with the Op "dial" if the request was not sent. A request is repeated only if
// its connection had been idle, no byte of an answer arrived, and its method is
// GET.
func (p *Pool) Do(ctx context.Context, q *Request, buf *bytes.Buffer, most int64) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	deadline := time.Now().Add(q.Within)
	q.watchdog = NewWatchdog(q.Hedger, q.Patience)
	c, dialled := p.idleConn(q.Addr), false
	for {
		if c == nil {
			var err error
			dialled = true
			if c, err = p.connect(ctx, q.Addr, deadline, &q.watchdog); err != nil {
				return Answer{}, err
			}
		}
		start := buf.Len()
		a, again, err := c.exchange(ctx, q, deadline, buf, most)
		if err == nil && again && !(dialled && q.Aside) {
			p.put(q.Addr, c)
			return a, nil
		}
		_ = c.Close()
		if err == nil || !again || q.Method != http.MethodGet {
			return a, unheard(err)
		}
		buf.Truncate(start)
		c = nil
	}
}

// unheard returns err, or a dial error instead if the other end has refused
// this client's certificate. In TLS 1.3 a client learns that only after the
// handshake. The server does not read the request, which may be on its way.
func unheard(err error) error {
	alert, ok := errors.AsType[*net.OpError](err)
	if ok && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate") {
		return &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("the other end refuses our certificate: %w", alert.Err)}
	}
	return err
}

// connect makes a connection before the deadline, ctx or the watchdog ends it.
func (p *Pool) connect(ctx context.Context, addr string, deadline time.Time, watchdog *Watchdog) (*conn, error) {
	dialling, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := watchdog.During(cancel)
	nc, err := p.dial(dialling, addr, deadline)
	stop()
	switch over := watchdog.ended(); {
	case err == nil && over != nil: // cancel runs in a goroutine of its own, and came too late
		_ = nc.Close() // nothing was sent on it
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: over}
	case err == nil:
		return newConn(nc), nil
	case ended(ctx) || over != nil:
		return nil, err
	case !time.Now().Before(deadline):
		return nil, fmt.Errorf("%w: %w", ErrLate, err)
	}
	return nil, err
}

// dial dials. Its error is an *net.OpError with the Op "dial".
func (p *Pool) dial(ctx context.Context, addr string, deadline time.Time) (net.Conn, error) {
	if p.Dial == nil {
		d := net.Dialer{Timeout: dialTime, Deadline: deadline, KeepAlive: probing}
		return d.DialContext(ctx, "tcp", addr)
	}
	if soon := time.Now().Add(cmp.Or(p.DialTime, dialTime)); soon.Before(deadline) {
		deadline = soon
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	nc, err := p.Dial(ctx, addr)
	if op, ok := errors.AsType[*net.OpError](err); err != nil && (!ok || op.Op != "dial") {
		err = &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	return nc, err
}

// ended reports whether ctx is over. A dialer checks its context's deadline
// itself, and may be ahead of the context's own timer.
func ended(ctx context.Context) bool {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// idleConn returns an idle connection that is still open, or nil. After a sleep of
// the machine its end may be missing. Timers, and instants with a monotonic part, do
// not count the sleep.
func (p *Pool) idleConn(addr string) *conn {
	for {
		c := p.pop(addr)
		if c == nil || time.Now().Round(0).Sub(c.since.Round(0)) < idleTime*3/2 && c.open() {
			return c
		}
		_ = c.Close()
	}
}

func (p *Pool) pop(addr string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[addr]
	if len(idle) == 0 {
		return nil
	}
	c := idle[len(idle)-1]
	idle[len(idle)-1] = nil
	p.idle[addr] = idle[:len(idle)-1]
	return c
}

// put keeps a connection for the next exchange.
func (p *Pool) put(addr string, c *conn) {
	c.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle[addr]) >= mostIdle {
		_ = c.Close()
		return
	}
	if p.idle == nil {
		p.idle = make(map[string][]*conn)
	}
	p.idle[addr] = append(p.idle[addr], c)
	if p.reaper == nil {
		p.reapIn(idleTime)
	}
}

// reapIn calls reap after d. The timer does not keep the pool in memory: a pool
// without users is collected with its connections, which closes them.
func (p *Pool) reapIn(d time.Duration) {
	dropped := weak.Make(p)
	p.reaper = time.AfterFunc(d, func() {
		if p := dropped.Value(); p != nil {
			p.reap(time.Now().Add(-idleTime))
		}
	})
}

// reap closes the connections that became idle earlier than the instant before.
func (p *Pool) reap(before time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaper = nil
	for addr, idle := range p.idle {
		kept := idle[:0]
		for _, c := range idle {
			if c.since.Before(before) {
				_ = c.Close()
			} else {
				kept = append(kept, c)
			}
		}
		clear(idle[len(kept):])
		p.idle[addr] = kept
		if len(kept) == 0 {
			delete(p.idle, addr)
		}
	}
	if len(p.idle) > 0 {
		p.reapIn(idleTime / 2)
	}
}

// CloseIdle closes the connections that are idle.
func (p *Pool) CloseIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, idle := range p.idle {
		for _, c := range idle {
			_ = c.Close()
		}
	}
	clear(p.idle)
}
