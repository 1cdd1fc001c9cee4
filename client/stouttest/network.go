package stouttest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// network is the cell's listeners and the connections to them.
type network struct {
	mu     sync.Mutex // guards what follows
	at     map[string]*listener
	conns  map[*wire]bool
	parted map[string]bool // addresses that are cut off, in both directions
}

func newNetwork() *network {
	return &network{at: map[string]*listener{}, conns: map[*wire]bool{}, parted: map[string]bool{}}
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "memory", Err: errors.New("connection refused")}
	errCut     = &net.OpError{Op: "dial", Net: "memory", Err: errors.New("the network is cut")}
)

// listener is a net.Listener at an address of the network.
type listener struct {
	n      *network
	addr   addr
	come   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// addr is an address of the network: a replica's id, alone or with ":peers".
type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }

// listen starts a listener at an address, and replaces an earlier one.
func (n *network) listen(at string) *listener {
	l := &listener{n: n, addr: addr(at), come: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[at] = l
	return l
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.come:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// wire is one end of a connection.
type wire struct {
	net.Conn
	n        *network
	from, to addr
}

func (n *network) dial(ctx context.Context, from, to string) (net.Conn, error) {
	near, far := net.Pipe()
	out := &wire{near, n, addr(from), addr(to)}
	n.mu.Lock()
	l, parted := n.at[to], n.parted[from] || n.parted[to]
	if l != nil && !parted {
		n.conns[out] = true
	}
	n.mu.Unlock()
	if l == nil || parted {
		return nil, errRefused
	}
	select {
	case l.come <- &wire{far, n, addr(to), addr(from)}:
		return out, nil
	case <-l.closed:
		out.Close()
		return nil, errRefused
	case <-ctx.Done():
		out.Close()
		return nil, ctx.Err()
	}
}

func (w *wire) LocalAddr() net.Addr  { return w.from }
func (w *wire) RemoteAddr() net.Addr { return w.to }

func (w *wire) Close() error {
	w.n.mu.Lock()
	delete(w.n.conns, w)
	w.n.mu.Unlock()
	return w.Conn.Close()
}

// unplug closes the listener at an address, and all connections to and from it.
func (n *network) unplug(at string) {
	n.mu.Lock()
	if l := n.at[at]; l != nil {
		l.Close()
		delete(n.at, at)
	}
	n.mu.Unlock()
	n.breakAll(at)
}

// part cuts an address off from all others, or reconnects it.
func (n *network) part(at string, parted bool) {
	n.mu.Lock()
	n.parted[at] = parted
	n.mu.Unlock()
	if parted {
		n.breakAll(at)
	}
}

// breakAll breaks all connections of an address.
func (n *network) breakAll(at string) {
	n.mu.Lock()
	var broken []*wire
	for w := range n.conns {
		if w.from == addr(at) || w.to == addr(at) {
			broken = append(broken, w)
		}
	}
	n.mu.Unlock()
	for _, w := range broken {
		w.Close()
	}
}
