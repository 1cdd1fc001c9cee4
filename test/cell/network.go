package cell

import (
	"fmt"
	"sync"

	"github.com/stoutlock/stout/internal/freeport"
)

// Network is the proxies between the replicas of a cell, and the rules that
// they apply to bytes. A rule concerns one direction: all bytes from one
// replica to another, both requests on the sender's connections and replies on
// the other's. A new rule replaces the direction's earlier one. Methods are
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

// direction is the bytes that from sends to to.
type direction struct{ from, to string }

func (d direction) reverse() direction { return direction{d.to, d.from} }

// rule is the treatment of a direction's bytes.
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

// Cut drops everything that a and b send to each other.
func (n *Network) Cut(a, b string) { n.set(drop, direction{a, b}, direction{b, a}) }

// CutOneWay drops everything that from sends to to; the other direction stays
// as it is.
func (n *Network) CutOneWay(from, to string) { n.set(drop, direction{from, to}) }

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

// HealBetween reconnects a and b at full speed.
func (n *Network) HealBetween(a, b string) {
	n.mu.Lock()
	delete(n.shapes, direction{a, b})
	delete(n.shapes, direction{b, a})
	n.mu.Unlock()
	n.set(pass, direction{a, b}, direction{b, a})
}

// Heal reconnects all replicas at full speed.
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

// set gives directions a rule. Connections that lost bytes and may pass bytes
// again are reset: bytes after the gap must not be taken for the lost ones.
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

// announce wakes every wait for a change. The caller holds n.mu.
func (n *Network) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// link makes the proxy from one replica to another and returns its address.
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

// add registers a connection. It returns false after close.
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

// look returns the rule of a direction for a chunk of the given size, and a
// channel that is closed when the rule may have changed. If the bytes will be
// dropped, the connection is marked under the same lock, so that a heal resets
// it in either order.
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
