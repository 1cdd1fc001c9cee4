package stouttest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// way is the network between a client and the cell. It is the client's
// transport.
type way struct {
	c    *Cell
	http *http.Transport

	mu      sync.Mutex // guards what follows
	is      condition
	changed chan struct{} // closed when is changes
	conns   map[*conn]bool
}

// condition is what happens to a client's packets, in both directions.
type condition int

const (
	whole   condition = iota // all packets arrive
	refused                  // connections are refused
	lost                     // all packets get lost
	deaf                     // answers get lost
)

func newWay(c *Cell) *way {
	w := &way{c: c, changed: make(chan struct{}), conns: map[*conn]bool{}}
	w.http = &http.Transport{DialContext: w.dial, MaxIdleConnsPerHost: 1024, DisableCompression: true}
	return w
}

// RoundTrip implements http.RoundTripper.
func (w *way) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := w.http.RoundTrip(q)
	if d := time.Duration(w.c.delay.Load()); d > 0 && err == nil {
		late := time.NewTimer(d)
		defer late.Stop()
		select {
		case <-late.C:
		case <-q.Context().Done():
			_ = resp.Body.Close()
			return nil, q.Context().Err()
		}
	}
	return resp, err
}

// CloseIdleConnections closes the connections without a call.
func (w *way) CloseIdleConnections() { w.http.CloseIdleConnections() }

// set sets the condition. It breaks connections that have lost data, because a
// stream with a gap is useless.
func (w *way) set(to condition) {
	w.mu.Lock()
	var broken []*conn
	for c := range w.conns {
		if to == refused || c.gap {
			broken = append(broken, c)
		}
	}
	w.is = to
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
	for _, c := range broken {
		c.Close()
	}
}

// conn is a client's end of a connection.
type conn struct {
	net.Conn
	w   *way
	gap bool // data was lost; guarded by w.mu
}

// here is the address of the clients; they run on the host of each replica.
const here = "127.0.0.1:0"

// dial opens a connection to the replica at an address.
func (w *way) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if err := w.awaitNetwork(ctx); err != nil {
		return nil, err
	}
	under, err := w.c.net.dial(ctx, here, w.c.at(address))
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: under, w: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.is == refused {
		return nil, errors.Join(errCut, under.Close())
	}
	w.conns[c] = true
	return c, nil
}

// awaitNetwork returns an error if connections are refused. While packets get
// lost, it waits.
func (w *way) awaitNetwork(ctx context.Context) error {
	for {
		w.mu.Lock()
		is, changed := w.is, w.changed
		w.mu.Unlock()
		switch is {
		case refused:
			return errCut
		case lost:
		default:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// loses reports whether data on c gets lost now, as an answer or as a request.
func (c *conn) loses(answer bool) bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.gap = c.gap || c.w.is == lost || c.w.is == deaf && answer
	return c.gap && (answer || c.w.is == lost)
}

func (c *conn) Write(b []byte) (int, error) {
	if c.loses(false) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if n == 0 || !c.loses(true) {
			return n, err
		}
	}
}

func (c *conn) Close() error {
	c.w.mu.Lock()
	delete(c.w.conns, c)
	c.w.mu.Unlock()
	return c.Conn.Close()
}
