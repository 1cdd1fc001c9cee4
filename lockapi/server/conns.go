package server

import (
	"net"
	"sync"
)

// conns counts the connections that the API has open, and keeps them below a
// bound: files and the replicas' own connections share the process's open files
// with them, and must never find none left.
//
// At the bound a new connection takes the place of the one that has been quiet
// for longest: whose first or next request has not arrived whole. A client that
// opens connections and sends nothing, or a byte now and then, cannot keep others
// out. Where every connection has a call under way, the new one is refused.
type conns struct {
	most int // 0 for no bound

	mu      sync.Mutex
	open    int
	evicted uint64
	quiet   conn       // the ring of those that are quiet: behind it the one that is for longest
	leaving int        // told to go and not gone
	room    *sync.Cond // a connection has gone
}

func newConns(most int) *conns {
	p := &conns{most: most}
	p.room = sync.NewCond(&p.mu)
	p.quiet.before, p.quiet.behind = &p.quiet, &p.quiet
	return p
}

// admit makes room for one more connection, or reports that there is none. A
// connection that makes way counts until its goroutine has noticed, for its file is
// open so long; that takes no longer than a switch of goroutines.
func (p *conns) admit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.most > 0 && p.open >= p.most {
		first := p.quiet.behind
		switch {
		case p.leaving > 0:
		case first == &p.quiet:
			return false
		default:
			p.evicted++
			p.leaving++
			first.leaving = true
			p.drop(first)
			_ = first.Conn.Close()
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

// busy notes that a request of the connection has arrived whole, unless the
// connection was told to go. Its call must not begin then: it could keep the place
// that somebody waits for.
func (p *conns) busy(nc net.Conn) bool {
	c := nc.(*conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(c)
	return !c.leaving
}

// waits notes that the connection waits for a request.
func (p *conns) waits(nc net.Conn) {
	c := nc.(*conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.quiet || c.gone || c.leaving {
		return
	}
	c.quiet = true
	c.before, c.behind = p.quiet.before, &p.quiet
	c.before.behind, c.behind.before = c, c
}

// drop takes a connection off the quiet ones. p.mu is held.
func (p *conns) drop(c *conn) {
	if !c.quiet {
		return
	}
	c.before.behind, c.behind.before = c.behind, c.before
	c.quiet, c.before, c.behind = false, nil, nil
}

// counts are the connections open, and how many were closed to make room so far.
func (p *conns) counts() (open int, evicted uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, p.evicted
}
