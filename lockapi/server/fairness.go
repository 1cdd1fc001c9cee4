package server

import (
	"cmp"
	"net"
	"net/netip"

	"github.com/stoutlock/stout/internal/audit"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
	"github.com/stoutlock/stout/master"
)

// At a limit of connections, of watchers or of forwarded calls, a call that waits
// may make way: the oldest one of the caller that has most of them, for a caller
// that has at least two fewer. A keepalive may take the place of any other wait,
// and is answered at once where it gets no place: sessions outlive a crowd. Calls
// that do not wait are let be: their answers would be lost.
//
// A call costs nothing for this but a pointer at its connection. The callers are
// counted when a limit is met.

// holder is the caller that waiting calls are counted for: a principal or, without
// one, a network.
type holder struct {
	principal string
	from      source
}

// names are the principals of tokens that one count has met.
type names map[[32]byte]string

// holderOf is the caller of a call that came from a network.
func (n names) holderOf(x *exchange, from source) holder {
	switch {
	case x.how != "":
		return holder{principal: x.proof.Principal}
	case x.secret == nil || x.master == nil:
		return holder{from: from}
	}
	name, met := n[*x.secret]
	if !met {
		by := master.Caller{Secret: x.secret, Ask: master.Ask{Right: master.Anybody}}
		_ = x.master.Judge(&by) // of a token that is none it leaves the name empty
		name = by.Principal
		n[*x.secret] = name
	}
	if name == "" {
		return holder{from: from}
	}
	return holder{principal: name}
}

// network is where the call came from.
func (x *exchange) network() source {
	at, err := netip.ParseAddrPort(x.remote())
	if err != nil {
		return source{}
	}
	return source(audit.NetworkOf(at.Addr()))
}

// park has the call's connection make way where others need it, until unpark.
func (x *exchange) park() {
	switch c := wire.ConnOf(x.ctx()).(type) {
	case *conn:
		x.place = c
	case *guest:
		x.place = c.seat()
	}
	if x.place != nil {
		x.place.waiting.Store(x)
	}
}

// unpark ends park.
func (x *exchange) unpark() {
	if x.place != nil {
		x.place.waiting.Store(nil)
	}
}

// crowd is the waiting calls of one holder.
type crowd struct {
	calls        int
	wait, keeper *conn // the oldest of those that keep no session alive, and of those that do
	waits        int   // of the former
}

// yield closes the connection of a waiting call that fits, for one of a newcomer.
// It reports whether there was one.
func (p *conns) yield(x *exchange, fits func(*exchange) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.close(p.choose(x, fits))
}

// close closes the connection of a call that makes way; nil is none. p.mu is held.
func (p *conns) close(c *conn) bool {
	if c == nil {
		return false
	}
	p.yielded++
	p.drop(c)
	_ = c.Conn.Close() // its goroutine meets that, and its call ends
	return true
}

// choose finds the connection that makes way for a call; nil for none. p.mu is held.
func (p *conns) choose(x *exchange, fits func(*exchange) bool) *conn {
	known, crowds := names{}, map[holder]*crowd{}
	var order []*crowd
	for c := p.working.next; c != &p.working; c = c.next {
		one := c.waiting.Load()
		if one == nil || !fits(one) {
			continue
		}
		h := known.holderOf(one, sourceOf(c.RemoteAddr()))
		of := crowds[h]
		if of == nil {
			of = &crowd{}
			crowds[h] = of
			order = append(order, of)
		}
		of.add(c, one.keeps)
	}
	own := crowds[known.holderOf(x, x.network())]
	if x.keeps {
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
func (p *conns) replace(x *exchange, nc net.Conn) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.most && !p.close(p.choose(x, anyCall)) {
		return nil
	}
	c := &conn{Conn: nc, server: x.Server}
	p.open++
	p.working.link(c)
	return c
}

func anyCall(*exchange) bool       { return true }
func watchesOnly(x *exchange) bool { return x.watches }
func callsOnly(x *exchange) bool   { return !x.watches }

// takePlace has a call that came by a spare connection take a place among the
// others. A keepalive that gets none does not wait. Nothing makes way for a caller
// that may not call at all.
func (x *exchange) takePlace(r *route) error {
	if x.stranger() != nil {
		return cmp.Or(x.refuseStranger(lockapi.CodeTooMany), errNoConnection(x))
	}
	x.keeps = r.template == routeKeepalive
	g, ok := wire.ConnOf(x.ctx()).(*guest)
	if ok && g.sit(x.conns.replace(x, g.Conn)) {
		return nil
	}
	if x.keeps {
		x.hurried = true
		return nil
	}
	return errNoConnection(x)
}
