package server

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// conns counts the connections that the API has open, those to other replicas
// included, and keeps them below a bound: files and the replicas' own traffic
// share the process's open files with them, and must never find none left.
//
// At the bound a new connection takes the place of the one that has been quiet
// for longest: whose first or next request has not arrived whole. A client that
// opens connections and sends nothing, or a byte now and then, cannot keep others
// out. Where every connection has a call under way, the new one is refused.
//
// It also knows which connections are fresh, with no request begun. For up to
// five seconds http.Server.Shutdown takes such a connection for one whose
// request is about to come, and every http.Transport dials some that it never
// uses, so without this most shutdowns would take five seconds longer.
type conns struct {
	most int // 0 for no bound

	mu      sync.Mutex
	open    int
	refused uint64
	evicted uint64
	quiet   list.List  // of *conn, quiet for longest first
	leaving int        // told to go and not gone
	room    *sync.Cond // a connection has gone
	closing bool
}

func newConns(most int) *conns {
	p := &conns{most: most}
	p.room = sync.NewCond(&p.mu)
	return p
}

// errTooManyConns is why another replica is not dialled.
var errTooManyConns = errors.New("this replica has as many connections open as max-connections allows")

// admit makes room for one more connection, or reports that there is none. A
// connection that makes way counts until net/http has noticed, for its file is
// open so long; that takes no longer than a switch of goroutines.
func (p *conns) admit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.most > 0 && p.open >= p.most {
		first := p.quiet.Front()
		switch {
		case first == nil && p.leaving == 0:
			p.refused++
			return false
		case first != nil && p.leaving == 0:
			p.evicted++
			p.leaving++
			c := first.Value.(*conn)
			c.leaving = true
			p.drop(c)
			_ = c.Conn.Close()
		}
		p.room.Wait()
	}
	p.open++
	return true
}

// left notes the end of a connection that was admitted.
func (p *conns) left(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(c)
	if c.gone {
		return
	}
	c.gone = true
	p.open--
	if c.leaving {
		p.leaving--
	}
	p.room.Broadcast()
}

// busy notes that a request of the connection has arrived whole.
func (p *conns) busy(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(c)
}

// drop takes a connection off the quiet ones. p.mu is held.
func (p *conns) drop(c *conn) {
	if c.quiet != nil {
		p.quiet.Remove(c.quiet)
		c.quiet = nil
	}
}

// note is the server's ConnState hook.
func (p *conns) note(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*conn)
	if !ok || state == http.StateActive && !c.fresh {
		return // only this hook writes fresh, one call after the other
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.fresh = state == http.StateNew
	switch {
	case c.gone || c.leaving || state != http.StateNew && state != http.StateIdle:
	case c.fresh && p.closing:
		_ = c.Conn.Close()
	case c.quiet == nil:
		c.quiet = p.quiet.PushBack(c)
	}
}

// connKey is the key of a request's *conn in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// closeFresh closes the fresh connections, and those that are yet to come. A
// request that was on its way has had no effect.
func (p *conns) closeFresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = true
	for e := p.quiet.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); c.fresh {
			_ = c.Conn.Close()
		}
	}
}

// counts are the connections open, and how many were refused and closed to make
// room so far.
func (p *conns) counts() (open int, refused, evicted uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, p.refused, p.evicted
}

// dial wraps a dialer so that its connections count.
func (p *conns) dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !p.admit() {
			return nil, errTooManyConns
		}
		c, err := dial(ctx, network, address)
		if err != nil {
			p.left(&conn{})
			return nil, err
		}
		return &dialed{Conn: c, left: sync.OnceFunc(func() { p.left(&conn{}) })}, nil
	}
}

// dialed is a connection to another replica.
type dialed struct {
	net.Conn
	left func()
}

func (d *dialed) Close() error {
	defer d.left()
	return d.Conn.Close()
}
