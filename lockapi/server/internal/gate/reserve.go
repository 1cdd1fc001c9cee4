package gate

import (
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// Where every connection of max-connections has a call under way, the next ones
// get one of the spare ones: for a single request, and a short time. A probe of
// the process's health, a look at its metrics and a keepalive are answered there
// as ever, since that is when they matter most. Another call replaces a waiting
// one of a caller that has more of them (call.go); otherwise it gets 429.
// What a connection is for is known only when its request is there.
const (
	spareConns = 32
	spareTime  = time.Second // for each: the request, each 64 KiB of the reply to be taken
)

// Reserve is the spare connections. They come on top of max-connections.
type Reserve struct {
	server *wire.Server

	mu      sync.Mutex
	guests  []*guest // the one that came first in front
	taken   uint64
	dropped uint64
}

// guest is one of the spare connections.
type guest struct {
	net.Conn
	spare *Reserve
	from  Source
	busy  bool // its request has arrived whole; guarded by spare.mu
	// place is what it counts as once it has replaced another connection; nil
	// before, and closed says that it has ended. Both are guarded by spare.mu.
	place  *conn
	closed bool
}

// NewReserve returns spare connections whose requests a server answers. Of that one it
// sets what it needs itself: the deadlines, Waits and Calls.
func NewReserve(server *wire.Server) *Reserve {
	p := &Reserve{server: server}
	server.HeaderTimeout, server.BodyTimeout, server.WriteTimeout, server.IdleTimeout = spareTime, spareTime, spareTime, spareTime
	server.Waits, server.Calls = func(net.Conn) {}, p.calls
	return p
}

// Close closes all of them.
func (p *Reserve) Close() error { return p.server.Close() }

// admit takes a connection for which there is no other place, or closes it. It
// does not block.
func (p *Reserve) admit(c net.Conn) {
	g := &guest{Conn: c, spare: p, from: SourceOf(c.RemoteAddr())}
	if !p.join(g) {
		_ = c.Close()
		return
	}
	p.server.Take(g)
}

// join gives g a place, where there is one or somebody makes way.
func (p *Reserve) join(g *guest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.guests) >= spareConns {
		p.dropped++
		i, ok := makesWay(p.guests, g.from)
		if !ok {
			return false
		}
		_ = p.guests[i].Conn.Close() // its goroutine meets that
		p.guests = slices.Delete(p.guests, i, i+1)
	}
	p.taken++
	p.guests = append(p.guests, g)
	return true
}

// calls notes that a connection's request has arrived whole.
func (p *Reserve) calls(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.(*guest).busy = true
	return true
}

// Close is what every connection ends with.
func (g *guest) Close() error {
	g.spare.mu.Lock()
	g.leave()
	g.closed = true
	place := g.place
	g.spare.mu.Unlock()
	if place != nil {
		defer place.conns.left(place)
	}
	return g.Conn.Close()
}

// leave frees the place among the spare connections. spare.mu is held.
func (g *guest) leave() {
	if i := slices.Index(g.spare.guests, g); i >= 0 {
		g.spare.guests = slices.Delete(g.spare.guests, i, i+1)
	}
}

// sit has the connection count as another than a spare one from now on, and reports
// whether it does. A nil place is none.
func (g *guest) sit(place *conn) bool {
	if place == nil {
		return false
	}
	g.spare.mu.Lock()
	defer g.spare.mu.Unlock()
	if g.closed {
		defer place.conns.left(place)
		return false
	}
	g.place = place
	g.leave()
	return true
}

// seat is what the connection counts as; nil for a spare one.
func (g *guest) seat() *conn {
	g.spare.mu.Lock()
	defer g.spare.mu.Unlock()
	return g.place
}

// CloseWrite lets a connection end without cutting off its last reply.
func (g *guest) CloseWrite() error { return closeWrite(g.Conn) }

// SyscallConn lets a connection be read and written without waiting.
func (g *guest) SyscallConn() (syscall.RawConn, error) { return syscallConn(g.Conn) }

// Counts returns how many connections came when there was none but the spare ones,
// and how many of them were closed to make room for others, or at once.
func (p *Reserve) Counts() (taken, dropped uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, p.dropped
}

// makesWay chooses who of the guests, all places being taken, makes way for one
// more. It is one of the source that has most, the newcomer counted: the one
// that came first of those whose request is not there yet. A request that is
// there is given up only for a source that has fewer. So a caller that takes
// all it can get keeps only its own next connections out.
func makesWay(guests []*guest, newcomer Source) (index int, ok bool) {
	count := map[Source]int{newcomer: 1}
	for _, g := range guests {
		count[g.from]++
	}
	best := -1
	for i, g := range guests {
		if best < 0 || count[g.from] > count[guests[best].from] ||
			count[g.from] == count[guests[best].from] && !g.busy && guests[best].busy {
			best = i
		}
	}
	return best, best >= 0 && (!guests[best].busy || count[guests[best].from] > count[newcomer])
}
