package gate

import (
	"context"
	"net"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// At a limit of connections, of watchers or of forwarded calls, a call that waits
// may make way: the oldest one of the caller that has most of them, for a caller
// that has at least two fewer. A keepalive may take the place of any other wait,
// and is answered at once where it gets no place: sessions outlive a crowd. Calls
// that do not wait are let be: their answers would be lost.
//
// A call costs nothing for this but a pointer at its connection. The callers are
// counted when a limit is met.

// Call is a call that may wait. It is part of what the server has of it.
type Call struct {
	Of      Caller
	Keeps   bool  // it keeps a session alive
	Watches bool  // it waits for events
	place   *conn // that it waits on; nil while it does not
}

// Caller is whose call it is.
type Caller interface {
	// Principal is the caller's name; empty without one. met has the names of tokens
	// that were met before.
	Principal(met Names) string
	// Source is where the call came from.
	Source() Source
}

// Names are the principals of tokens that one count has met.
type Names map[[32]byte]string

// holder is the caller that waiting calls are counted for: a principal or, without
// one, a network.
type holder struct {
	principal string
	from      Source
}

func holderOf(c Caller, met Names, from Source) holder {
	if name := c.Principal(met); name != "" {
		return holder{principal: name}
	}
	return holder{from: from}
}

// Park has the call's connection make way where others need it, until Unpark.
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

// Reserve has a call that came by a spare connection take a place among the others, and
// reports whether it has one.
func (p *Conns) Reserve(ctx context.Context, c *Call) bool {
	g, ok := wire.ConnOf(ctx).(*guest)
	return ok && g.sit(p.replace(c, g.Conn))
}

// crowd is the waiting calls of one holder.
type crowd struct {
	calls        int
	wait, keeper *conn // the oldest of those that keep no session alive, and of those that do
	waits        int   // of the former
}

// Yield closes the connection of a waiting call that fits, for one of a newcomer.
// It reports whether there was one.
func (p *Conns) Yield(newcomer *Call, fits func(*Call) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.close(p.choose(newcomer, fits))
}

// close closes the connection of a call that makes way; nil is none. p.mu is held.
func (p *Conns) close(c *conn) bool {
	if c == nil {
		return false
	}
	p.yielded++
	p.drop(c)
	_ = c.Conn.Close() // its goroutine meets that, and its call ends
	return true
}

// choose finds the connection that makes way for a call; nil for none. p.mu is held.
func (p *Conns) choose(newcomer *Call, fits func(*Call) bool) *conn {
	known, crowds := Names{}, map[holder]*crowd{}
	var order []*crowd
	for c := p.working.next; c != &p.working; c = c.next {
		one := c.waiting.Load()
		if one == nil || !fits(one) {
			continue
		}
		h := holderOf(one.Of, known, SourceOf(c.RemoteAddr()))
		of := crowds[h]
		if of == nil {
			of = &crowd{}
			crowds[h] = of
			order = append(order, of)
		}
		of.add(c, one.Keeps)
	}
	own := crowds[holderOf(newcomer.Of, known, newcomer.Of.Source())]
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

// add counts a call.
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

// largest is the first crowd of those that have most; nil where there are none.
func largest(all []*crowd, size func(*crowd) int) (most *crowd) {
	for _, of := range all {
		if most == nil || size(of) > size(most) {
			most = of
		}
	}
	return most
}

// replace gives a spare connection a place among the others, where there is room or
// a call makes way; nil where there is none.
func (p *Conns) replace(newcomer *Call, nc net.Conn) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.most && !p.close(p.choose(newcomer, anyCall)) {
		return nil
	}
	c := &conn{Conn: nc, conns: p}
	p.open++
	p.working.link(c)
	return c
}

func anyCall(*Call) bool { return true }

// WatchesOnly and CallsOnly choose which calls may make way.
func WatchesOnly(c *Call) bool { return c.Watches }
func CallsOnly(c *Call) bool   { return !c.Watches }
