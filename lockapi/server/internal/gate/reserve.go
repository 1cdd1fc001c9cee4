package gate

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// When every connection of max-connections has a call under way, further
// connections become spare connections: each for a single request and a short
// time. Health probes, metrics, the page's files and keepalives are answered
// there as usual, since they matter most during an overload. Any other call
// displaces a waiting call of a caller that has more of them (call.go), or gets
// 429. The server knows the purpose of a connection only after its request has
// arrived.
const (
	spareConns = 32
	spareTime  = time.Second // for the request, and for each 64 KiB of the reply
)

// Reserve holds the spare connections. They do not count toward max-connections.
type Reserve struct {
	server *wire.Server

	mu      sync.Mutex
	guests  []*guest // in order of arrival
	spared  uint64
	dropped uint64
}

type guest struct {
	netConn
	spare *Reserve
	from  Source
	busy  bool // its request has arrived completely; guarded by spare.mu
	// place is the regular place that the guest got from a displaced
	// connection; nil before. closed reports that the guest has ended. Both are
	// guarded by spare.mu.
	place  *conn
	closed bool
}

// NewReserve returns spare connections with requests that server answers. It
// sets the deadlines, Waits, Calls and Silent of server.
func NewReserve(server *wire.Server) *Reserve {
	p := &Reserve{server: server}
	server.HeaderTimeout, server.BodyTimeout, server.WriteTimeout, server.IdleTimeout = spareTime, spareTime, spareTime, spareTime
	server.Waits, server.Calls, server.Silent = func(net.Conn) {}, p.calls, nil
	return p
}

// admit accepts a connection without a regular place, or closes it. It does not
// block.
func (p *Reserve) admit(c net.Conn) {
	g := &guest{netConn: netConn{c}, spare: p, from: SourceOf(c.RemoteAddr())}
	if !p.join(g) {
		_ = c.Close()
		return
	}
	p.server.ServeConn(g)
}

// join adds g if there is a free place or another guest can be closed.
func (p *Reserve) join(g *guest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.guests) >= spareConns {
		p.dropped++
		i, ok := makesWay(p.guests, g.from)
		if !ok {
			return false
		}
		_ = p.guests[i].Conn.Close() // its goroutine gets an error
		p.guests = slices.Delete(p.guests, i, i+1)
	}
	p.spared++
	p.guests = append(p.guests, g)
	return true
}

func (p *Reserve) calls(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.(*guest).busy = true
	return true
}

// Close closes the connection and frees its place.
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

// leave frees the guest's place among the spare connections. spare.mu is held.
func (g *guest) leave() {
	if i := slices.Index(g.spare.guests, g); i >= 0 {
		g.spare.guests = slices.Delete(g.spare.guests, i, i+1)
	}
}

// sit moves the guest to a regular place, and reports whether it did. It does
// not if place is nil.
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

// seat returns the guest's regular place, or nil if it is still a spare
// connection.
func (g *guest) seat() *conn {
	g.spare.mu.Lock()
	defer g.spare.mu.Unlock()
	return g.place
}

// Counts returns how many connections became spare ones, and how many of them
// were closed for others or at once.
func (p *Reserve) Counts() (spared, dropped uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spared, p.dropped
}

// makesWay chooses the guest to close for a newcomer when all places are taken.
// It belongs to the source with most guests, counting the newcomer. Among
// those, it is the first one without a complete request. A guest with a
// complete request is closed only for a source with fewer guests. A caller that
// opens as many connections as it can therefore keeps out only its own.
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
