package gate

import (
	"net"
	"sync"
)

// Conns counts the connections that the API has open, and keeps them below a
// bound: files and the replicas' own connections share the process's open files
// with them, and must never find none left.
//
// At the bound a new connection takes the place of the one that has been idle
// for longest: whose first or next request has not arrived whole. A client that
// opens connections and sends nothing, or a byte now and then, cannot keep
// others out. Where every connection has a call under way, the new one is a
// spare one, and a call that waits may make way for it (call.go).
type Conns struct {
	most int // 0 for no bound

	mu       sync.Mutex // guards what follows, and the fields of conn that say so
	open     int
	evicted  uint64
	idle     conn       // the ring of those that are idle: its next is so for longest
	working  conn       // the ring of those that have a call under way, likewise
	yielded  uint64     // closed for others though they had a call under way
	evicting int        // told to go and not gone
	room     *sync.Cond // a connection has gone
}

// NewConns returns Conns without any connection; 0 is no bound.
func NewConns(most int) *Conns {
	p := &Conns{most: most}
	p.room = sync.NewCond(&p.mu)
	p.idle.prev, p.idle.next = &p.idle, &p.idle
	p.working.prev, p.working.next = &p.working, &p.working
	return p
}

// admit makes room for one more connection, or reports that there is none. A
// connection that makes way counts until its goroutine has noticed, for its
// file is open so long; that takes no longer than a switch of goroutines.
func (p *Conns) admit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.most > 0 && p.open >= p.most {
		first := p.idle.next
		switch {
		case p.evicting > 0:
		case first == &p.idle:
			return false
		default:
			p.evicted++
			p.evicting++
			first.evicting = true
			p.drop(first)
			_ = first.Conn.Close()
		}
		p.room.Wait()
	}
	p.open++
	return true
}

// left notes the end of a connection that was admitted.
func (p *Conns) left(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(c)
	if c.gone {
		return
	}
	c.gone = true
	p.open--
	if c.evicting {
		p.evicting--
	}
	p.room.Broadcast()
}

// Busy notes that a request of the connection has arrived whole, unless the
// connection was told to go. Its call must not begin then: it could keep the
// place that somebody waits for.
func (p *Conns) Busy(nc net.Conn) bool {
	c := nc.(*conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(c)
	if c.evicting {
		return false
	}
	p.working.link(c)
	return true
}

// Waits notes that the connection waits for a request.
func (p *Conns) Waits(nc net.Conn) {
	c := nc.(*conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.idle || c.gone || c.evicting {
		return
	}
	p.drop(c)
	c.idle = true
	p.idle.link(c)
}

// link puts c at the end of a ring. conns.mu is held.
func (ring *conn) link(c *conn) {
	c.prev, c.next = ring.prev, ring
	c.prev.next, c.next.prev = c, c
}

// drop takes a connection off its ring. p.mu is held.
func (p *Conns) drop(c *conn) {
	if c.next == nil {
		return
	}
	c.prev.next, c.next.prev = c.next, c.prev
	c.idle, c.prev, c.next = false, nil, nil
}

// Counts are the connections open, and how many were closed to make room so far:
// idle ones, and those with a call that waited.
func (p *Conns) Counts() (open int, evicted, yielded uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, p.evicted, p.yielded
}

// Most is the bound; 0 is none.
func (p *Conns) Most() int { return p.most }
