package gate

import (
	"net"
	"sync"
	"time"
)

// Conns counts the API's open connections and keeps them below a bound. Files
// and the connections between replicas share the process's open files, and must
// always find some left.
//
// At the bound a new connection replaces the one that has been idle longest.
// Idle means that its first or next request has not arrived completely. A
// client that opens connections and sends nothing, or a byte now and then,
// cannot keep others out. If every connection has a call under way, the new one
// becomes a spare connection, and a waiting call may be closed for it
// (call.go).
type Conns struct {
	most int // 0 for no bound

	mu       sync.Mutex // guards the following fields and the fields of conn marked so
	open     int
	evicted  uint64
	idle     conn       // ring of idle connections; next is the one idle longest
	working  conn       // ring of connections with a call under way, in the same order
	yielded  uint64     // closed for others while they had a call under way
	evicting int        // ordered to close, not closed yet
	room     *sync.Cond // signals that a connection has closed
}

// NewConns returns an empty Conns. A bound of 0 means no bound.
func NewConns(most int) *Conns {
	p := &Conns{most: most}
	p.room = sync.NewCond(&p.mu)
	p.idle.prev, p.idle.next = &p.idle, &p.idle
	p.working.prev, p.working.next = &p.working, &p.working
	return p
}

// admit makes room for one more connection, or returns false. A replaced
// connection counts until its goroutine has closed it, since its file stays
// open until then. The wait takes only a switch of goroutines.
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

// left records the end of an admitted connection.
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

// Busy records that a request of the connection has arrived completely. It
// returns false if the connection is being closed. Its call must not begin
// then: it could keep a place for which a new connection waits.
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

// Waits records that the connection waits for a request.
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

// Silent records since when the reply on the connection waits for the caller,
// or with a zero time that it no longer does.
func (p *Conns) Silent(nc net.Conn, since time.Time) {
	n := int64(0)
	if !since.IsZero() {
		n = since.UnixNano()
	}
	nc.(*conn).silent.Store(n)
}

// longSilent returns a connection with a reply that its caller is slow to read, or
// nil. As on a spare connection, each 64 KiB may take spareTime. p.mu is held.
func (p *Conns) longSilent() *conn {
	before := time.Now().Add(-spareTime).UnixNano()
	for c := p.working.next; c != &p.working; c = c.next {
		if n := c.silent.Load(); n != 0 && n < before {
			return c
		}
	}
	return nil
}

// link appends c to a ring. conns.mu is held.
func (ring *conn) link(c *conn) {
	c.prev, c.next = ring.prev, ring
	c.prev.next, c.next.prev = c, c
}

// drop removes a connection from its ring. p.mu is held.
func (p *Conns) drop(c *conn) {
	if c.next == nil {
		return
	}
	c.prev.next, c.next.prev = c.next, c.prev
	c.idle, c.prev, c.next = false, nil, nil
}

// Counts returns the number of open connections, and how many were closed to
// make room: idle ones, and ones with a waiting call.
func (p *Conns) Counts() (open int, evicted, yielded uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, p.evicted, p.yielded
}

// Most returns the bound; 0 means no bound.
func (p *Conns) Most() int { return p.most }
