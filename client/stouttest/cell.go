package stouttest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/memlog"
	"github.com/stoutlock/stout/lease"
)

// Options say what a cell is like. The zero value is good.
type Options struct {
	// Size is the number of replicas, an odd one. Default: 3.
	Size int
	// LeaseTerm is the master's lease. A new master waits for the end of the
	// earlier one's. Default: 2 s.
	LeaseTerm time.Duration
	// Events is how many events each replica keeps; a reader that is further behind
	// learns that they are compacted. Default: 1000.
	Events int
	// URL, if it is set, is the base URL under which clients find a replica, which may
	// change: for a test that serves the cell on ports, and calls a replica through
	// the Transport of a Client. Default: "http://" and the replica's id.
	URL func(id string) string
	// Log, if it is set, is called with each line that a replica logs. Default: the
	// lines are dropped.
	Log func(replica, line string)
}

// TB is what a cell needs of a *testing.T.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

const (
	// drift bounds how far the replicas' clocks run from true time, as
	// stoutd has it by default.
	drift = lease.Drift(0.01)
	// entryTime is how long an entry of the log takes to be committed.
	entryTime = time.Millisecond
	// contactEvery is how often a replica asks the others how they are: seldom,
	// since that takes most of the time of an idle cell.
	contactEvery = time.Minute
	// electionTime is how long the replicas do without a master before they elect
	// another.
	electionTime = 500 * time.Millisecond
	// patience bounds each wait of a cell for itself.
	patience = time.Minute
)

// Cell is a cell in memory. Its methods are safe for concurrent use; those that
// do harm are called by the goroutine of the test, which they end if they cannot
// do it. In a cell without a test they panic then.
type Cell struct {
	t        TB // nil: no test
	opts     Options
	start    time.Time
	log      *memlog.Cell
	net      *network
	replicas []*replica
	delay    atomic.Int64 // of each answer, in nanoseconds

	mu      sync.Mutex // guards what follows
	clients map[*client.Client]*way
	closed  bool
}

// New starts a cell and waits until it has a master. The cell ends with the
// test. Where t is nil, as in an Example, the caller calls Close.
func New(t TB, o Options) *Cell {
	if o.Size == 0 {
		o.Size = 3
	}
	if o.LeaseTerm == 0 {
		o.LeaseTerm = 2 * time.Second
	}
	c := &Cell{t: t, opts: o, start: time.Now(), net: newNetwork(), clients: map[*client.Client]*way{}}
	if o.Size < 1 || o.Size%2 == 0 {
		c.fatalf("a cell of %d replicas: Size is to be odd", o.Size)
	}
	c.log = memlog.New(o.Size, memlog.Options{Events: o.Events, URL: o.URL, Broken: c.broken})
	c.log.SetDelay(entryTime)
	for _, n := range c.log.Nodes() {
		r := &replica{c: c, node: n}
		c.replicas = append(c.replicas, r)
		r.begin()
	}
	if t != nil {
		t.Cleanup(c.Close)
	}
	c.elect(nil)
	return c
}

// broken is called where the replicated state is not sound.
func (c *Cell) broken(err error) {
	if c.t == nil {
		panic(err)
	}
	c.t.Errorf("the state of the cell in memory: %v", err)
}

func (c *Cell) fatalf(format string, args ...any) {
	text := "stouttest: " + fmt.Sprintf(format, args...)
	if c.t == nil {
		panic(text)
	}
	c.t.Helper()
	c.t.Fatalf("%s", text)
}

// Close ends the cell: calls under way are cut off. Calling it again does
// nothing.
func (c *Cell) Close() {
	c.mu.Lock()
	was := c.closed
	c.closed = true
	clients := c.clients
	c.mu.Unlock()
	if was {
		return
	}
	for cl, w := range clients {
		w.set(refused)
		_ = cl.Close()
	}
	for _, r := range c.replicas {
		r.end()
	}
	c.log.Close()
}

// URLs are the base URLs of the replicas. They mean something to the cell's own
// clients only.
func (c *Cell) URLs() []string {
	var urls []string
	for _, r := range c.replicas {
		urls = append(urls, r.node.URL(r.node.ID()))
	}
	return urls
}

// Client makes a client of the cell, with a network of its own: see Cut.
// Options may set any field of its Config; one that sets Transport finds the
// cell's in the field and calls that.
func (c *Cell) Client(opts ...client.Option) *client.Client {
	w := newWay(c)
	config := client.Config{URLs: c.URLs(), Transport: w, Clock: func() time.Duration { return time.Since(c.start) }}
	cl, err := config.New(opts...)
	if err != nil {
		c.fatalf("%v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[cl] = w
	return cl
}

// Master is the id of the replica that is master; empty without one.
func (c *Cell) Master() string {
	if r := c.master(); r != nil {
		return r.node.ID()
	}
	return ""
}

// master is the replica that is master; nil without one.
func (c *Cell) master() *replica {
	for _, r := range c.replicas {
		if m := r.running(); m != nil && m.Known().Self {
			return r
		}
	}
	return nil
}

// inOffice is the replica that is master; without one the test ends.
func (c *Cell) inOffice() *replica {
	r := c.master()
	if r == nil {
		c.fatalf("no replica is master")
	}
	return r
}

// elect makes one of the replicas the master, but not the one named, and waits
// until it is in office.
func (c *Cell) elect(but *replica) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	next := c.campaign(but)
	if next == nil {
		c.fatalf("no replica can be elected")
	}
	c.awaitOffice(ctx, next, 0)
}

// awaitOffice waits until an elected replica is in office, in that epoch or a
// later one.
func (c *Cell) awaitOffice(ctx context.Context, next *replica, epoch uint64) {
	for ; ; time.Sleep(entryTime) {
		at, err := next.running().Locate(ctx)
		switch {
		case err == nil && at.Self && at.Epoch >= epoch:
			return
		case ctx.Err() != nil:
			c.fatalf("replica %s is not in office: %v", next.node.ID(), err)
		}
	}
}

// campaign elects the first replica that can be, and is not the one named.
func (c *Cell) campaign(but *replica) *replica {
	for _, r := range c.replicas {
		if r != but && r.running() != nil && c.log.Campaign(r.node) {
			return r
		}
	}
	return nil
}

// logger is that of a replica.
func (c *Cell) logger(id string) zerolog.Logger {
	if c.opts.Log == nil {
		return zerolog.Nop()
	}
	return zerolog.New(lines{id, c.opts.Log})
}

// lines takes a replica's log.
type lines struct {
	id  string
	say func(replica, line string)
}

func (l lines) Write(b []byte) (int, error) {
	l.say(l.id, string(b))
	return len(b), nil
}
