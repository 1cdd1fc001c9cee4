package gate

import (
	"context"
	"net"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// At a limit of connections, watchers or forwarded calls, a waiting call may be
// closed to make room for a new one. It is the oldest waiting call of the
// caller that has most of them, and the newcomer's caller must have at least
// two fewer.
//
// A keepalive may displace any other wait. If it gets no place, it is answered
// at once, so that sessions survive an overload. Calls that do not wait are
// never closed, since their answers would be lost, unless their caller is slow
// to read the answer.
//
// A waiting call costs only a pointer on its connection. Callers are counted
// only when a limit is reached.

// Call is a call that may wait. The server embeds it in its own record of the
// call.
type Call struct {
	Of      Caller
	Keeps   bool  // it keeps a session alive
	Watches bool  // it waits for events
	Refused bool  // its answer is only delayed: it has a connection, and no other place
	place   *conn // connection on which it waits; nil while it does not
}

// Caller identifies the caller of a call.
type Caller interface {
	// Principal returns the caller's principal, or "" for an anonymous caller.
	// met caches the principals of tokens.
	Principal(met Names) string
	// Source returns the origin of the call.
	Source() Source
}

// Names caches the principals of tokens during one count.
type Names map[[32]byte]string

// callerOrSource is the unit by which waiting calls are counted: a principal or,
// for anonymous callers, a network.
type callerOrSource struct {
	principal string
	from      Source
}

func callerOrSourceOf(c Caller, met Names, from Source) callerOrSource {
	if name := c.Principal(met); name != "" {
		return callerOrSource{principal: name}
	}
	return callerOrSource{from: from}
}

// Park lets others displace the call's connection, until Unpark.
func (c *Call) Park(ctx context.Context) {
	switch on := wire.ConnOf(ctx).(type) {
	case *conn:
		c.place = on
	case *guest:
		c.place = on.seat()
	}
	if c.place != nil {
		c.place.waiting.Store(c)
	}
}

// Unpark ends Park.
func (c *Call) Unpark() {
	if c.place != nil {
		c.place.waiting.Store(nil)
	}
}

// Reserve moves a call from a spare connection to a regular place, and reports
// whether it got one.
func (p *Conns) Reserve(ctx context.Context, c *Call) bool {
	g, ok := wire.ConnOf(ctx).(*guest)
	return ok && g.sit(p.replace(c, g.Conn))
}

// crowd counts the waiting calls of one caller or source.
type crowd struct {
	calls        int
	wait, keeper *conn // oldest call that keeps no session alive, and oldest that does
	waits        int   // number of calls that keep no session alive
}

// Yield closes the connection of a waiting call that fits, to make room for the
// newcomer. It reports whether it found one.
func (p *Conns) Yield(newcomer *Call, fits func(*Call) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.close(p.choose(newcomer, fits))
}

// close closes the connection of a displaced call and reports whether c is not
// nil. p.mu is held.
func (p *Conns) close(c *conn) bool {
	if c == nil {
		return false
	}
	p.yielded++
	p.drop(c)
	_ = c.Conn.Close() // its goroutine gets an error, and the call ends
	return true
}

// choose returns the connection to close for the newcomer, or nil. p.mu is
// held.
func (p *Conns) choose(newcomer *Call, fits func(*Call) bool) *conn {
	known, crowds := Names{}, map[callerOrSource]*crowd{}
	var order []*crowd
	for c := p.working.next; c != &p.working; c = c.next {
		one := c.waiting.Load()
		if one == nil || !fits(one) {
			continue
		}
		h := callerOrSourceOf(one.Of, known, SourceOf(c.RemoteAddr()))
		of := crowds[h]
		if of == nil {
			of = &crowd{}
			crowds[h] = of
			order = append(order, of)
		}
		of.add(c, one.Keeps)
	}
	own := crowds[callerOrSourceOf(newcomer.Of, known, newcomer.Of.Source())]
	if newcomer.Keeps {
		if most := largest(order, func(of *crowd) int { return of.waits }); most != nil && most.waits > 0 {
			return most.wait
		}
	}
	most := largest(order, func(of *crowd) int { return of.calls })
	switch {
	case most == nil, most == own, own != nil && most.calls <= own.calls+1, most.calls < 2:
		return nil
	case most.wait != nil:
		return most.wait
	}
	return most.keeper
}

func (of *crowd) add(c *conn, keeps bool) {
	of.calls++
	switch {
	case keeps && of.keeper == nil:
		of.keeper = c
	case !keeps:
		of.waits++
		if of.wait == nil {
			of.wait = c
		}
	}
}

// largest returns the first of the largest crowds, or nil if there are no
// crowds.
func largest(all []*crowd, size func(*crowd) int) (most *crowd) {
	for _, of := range all {
		if most == nil || size(of) > size(most) {
			most = of
		}
	}
	return most
}

// replace gives a spare connection a regular place if one is free, a reply is
// read too slowly, or a call can be displaced; otherwise it returns nil.
func (p *Conns) replace(newcomer *Call, nc net.Conn) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.most && !p.close(p.longSilent()) && !p.close(p.choose(newcomer, anyCall)) {
		return nil
	}
	c := &conn{netConn: netConn{nc}, conns: p}
	p.open++
	p.working.link(c)
	return c
}

func anyCall(*Call) bool { return true }

// WatchesOnly and CallsOnly select the calls that hold the place of a watcher, or of
// a forwarded call.
func WatchesOnly(c *Call) bool { return c.Watches && !c.Refused }
func CallsOnly(c *Call) bool   { return !c.Watches && !c.Refused }
