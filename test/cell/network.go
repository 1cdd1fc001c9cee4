package cell

import (
	"fmt"
	"sync"

	"github.com/stoutlock/stout/internal/freeport"
)

// Network is the proxies between the replicas of a cell and the rules by which
// they let bytes through. A rule is about a direction: what a replica sends to
// another, be it a request on a connection that it made or a reply on one that
// the other made. A new rule replaces the direction's earlier one. Methods are
// safe for concurrent use.
type Network struct {
	mu      sync.Mutex
	rules   map[direction]rule
	shapes  map[direction]Shape
	changed chan struct{} // closed and replaced whenever a rule changes
	links   map[string]*link
	conns   map[*conn]struct{}
	closed  bool
}

// direction is what from sends to to.
type direction struct{ from, to string }

func (d direction) reverse() direction { return direction{d.to, d.from} }

// rule is what happens to the bytes of a direction.
type rule int

const (
	pass rule = iota
	drop      // they vanish
	hold      // they wait
)

func newNetwork() *Network {
	return &Network{
		rules:   map[direction]rule{},
		shapes:  map[direction]Shape{},
		changed: make(chan struct{}),
		links:   map[string]*link{},
		conns:   map[*conn]struct{}{},
	}
}

// Cut makes everything that a and b send to each other vanish.
func (n *Network) Cut(a, b string) { n.set(drop, direction{a, b}, direction{b, a}) }

// CutOneWay makes everything that from sends to to vanish; the other direction
// stays as it is.
func (n *Network) CutOneWay(from, to string) { n.set(drop, direction{from, to}) }

// Hold delays everything that from sends to to until a Heal: it then arrives,
// late but whole, as after a long stop of the sender.
func (n *Network) Hold(from, to string) { n.set(hold, direction{from, to}) }

// Isolate cuts id off from all others, in both directions.
func (n *Network) Isolate(id string) {
	n.mu.Lock()
	var all []direction
	for _, l := range n.links {
		if l.dir.from == id || l.dir.to == id {
			all = append(all, l.dir, l.dir.reverse())
		}
	}
	n.mu.Unlock()
	n.set(drop, all...)
}

// HealBetween lets a and b talk again, at full speed.
func (n *Network) HealBetween(a, b string) {
	n.mu.Lock()
	delete(n.shapes, direction{a, b})
	delete(n.shapes, direction{b, a})
	n.mu.Unlock()
	n.set(pass, direction{a, b}, direction{b, a})
}

// Heal lets all talk to all again, at full speed.
func (n *Network) Heal() {
	n.mu.Lock()
	clear(n.shapes)
	var all []direction
	for d := range n.rules {
		all = append(all, d)
	}
	n.mu.Unlock()
	n.set(pass, all...)
}

// set gives directions a rule. Connections that lost bytes and may talk again
// are reset: what came after the gap must not be taken for what it replaced.
func (n *Network) set(r rule, dirs ...direction) {
	n.mu.Lock()
	for _, d := range dirs {
		n.rules[d] = r
	}
	var torn []*conn
	for c := range n.conns {
		if c.lost[c.dir] && n.rules[c.dir] == pass || c.lost[c.dir.reverse()] && n.rules[c.dir.reverse()] == pass {
			torn = append(torn, c)
		}
	}
	n.announce()
	n.mu.Unlock()
	for _, c := range torn {
		c.reset()
	}
}

// announce wakes all that wait for a change. n.mu is held.
func (n *Network) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// link makes the proxy through which from reaches to, and returns its address.
func (n *Network) link(from, to, target string) (string, error) {
	listener, err := freeport.Listen()
	if err != nil {
		return "", fmt.Errorf("proxy from %s to %s: %w", from, to, err)
	}
	l := &link{network: n, dir: direction{from, to}, listener: listener, target: target}
	n.mu.Lock()
	n.links[listener.Addr().String()] = l
	n.mu.Unlock()
	go l.serve()
	return listener.Addr().String(), nil
}

// close ends the proxies and their connections.
func (n *Network) close() {
	n.mu.Lock()
	n.closed = true
	links, conns := n.links, n.conns
	n.links, n.conns = nil, nil
	n.mu.Unlock()
	for _, l := range links {
		_ = l.listener.Close()
	}
	for c := range conns {
		c.reset()
	}
}

// add enters a connection; false after close.
func (n *Network) add(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.conns[c] = struct{}{}
	return true
}

func (n *Network) remove(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// look is the rule of a direction for a chunk of some size, and a channel that is closed when it may
// have changed. Bytes that are about to vanish are noted on the connection
// under the same lock, so that a heal resets it whichever comes first.
func (n *Network) look(c *conn, d direction, size int) (rule, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.rules[d]
	if r == drop {
		c.lost[d] = true
	}
	if largest := n.shapes[d].Largest; r == pass && largest > 0 && size > largest {
		r = hold
	}
	return r, n.changed
}
