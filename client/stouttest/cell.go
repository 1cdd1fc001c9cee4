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
	"github.com/stoutlock/stout/replica/state"
)

// Options configure a cell. The zero value is valid.
type Options struct {
	// Size is the number of replicas; it must be odd. Default: 3.
	Size int
	// LeaseTerm is the length of the master's lease. A new master waits for the
	// end of its predecessor's lease. Default: 2 s.
	LeaseTerm time.Duration
	// Events is how many events each replica keeps. Readers that are further
	// behind get compacted. Default: 1000.
	Events int
	// URL, if set, returns the base URL under which clients find a replica; it
	// may change. A test needs it that serves the cell on ports, and calls a
	// replica through a Client's Transport. Default: "http://" and the
	// replica's id.
	URL func(id string) string
	// Log, if set, receives each line that a replica logs. Default: the lines
	// are dropped.
	Log func(replica, line string)
}

// TB is the part of *testing.T that a cell uses.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

const (
	// drift bounds how far the replicas' clocks deviate from true time; it is
	// stoutd's default.
	drift = lease.Drift(0.01)
	// entryTime is how long the log takes to commit an entry.
	entryTime = time.Millisecond
	// contactEvery is how often a replica checks the others. It is rare, since
	// these calls take most of an idle cell's time.
	contactEvery = time.Minute
	// electionTime is how long the replicas wait without a master before they
	// elect one.
	electionTime = 500 * time.Millisecond
	// patience bounds each internal wait of a cell.
	patience = time.Minute
)

// Cell is a cell in memory. Its methods are safe for concurrent use. Methods
// that cause faults must be called by the test's goroutine: if they fail they
// end the test. In a cell without a test they panic instead.
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
// test. If t is nil, as in an Example, the caller must call Close.
func New(t TB, o Options) *Cell {
	if o.Size == 0 {
		o.Size = 3
	}
	if o.LeaseTerm == 0 {
		o.LeaseTerm = 2 * time.Second
	}
	c := &Cell{t: t, opts: o, start: time.Now(), net: newNetwork(), clients: map[*client.Client]*way{}}
	if o.Size < 1 || o.Size%2 == 0 {
		c.fatalf("a cell of %d replicas: Size must be positive and odd", o.Size)
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
	c.awaitLevel()
	return c
}

// awaitLevel waits until the new cell has this release's level. At a lower one
// it does not have all features: it does not report the loss of a hold.
func (c *Cell) awaitLevel() {
	for deadline := time.Now().Add(patience); ; time.Sleep(entryTime) {
		level := c.inOffice().node.State().Level
		switch {
		case level == state.Level:
			return
		case time.Now().After(deadline):
			c.fatalf("the new cell has level %d, not %d", level, state.Level)
		}
	}
}

// broken reports that the replicated state is inconsistent.
func (c *Cell) broken(err error) {
	if c.t == nil {
		panic(err)
	}
	c.t.Errorf("the replicated state is inconsistent: %v", err)
}

func (c *Cell) fatalf(format string, args ...any) {
	text := "stouttest: " + fmt.Sprintf(format, args...)
	if c.t == nil {
		panic(text)
	}
	c.t.Helper()
	c.t.Fatalf("%s", text)
}

// Close ends the cell and cuts off calls under way. Further calls do nothing.
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

// URLs returns the base URLs of the replicas. Only the cell's own clients can
// use them.
func (c *Cell) URLs() []string {
	var urls []string
	for _, r := range c.replicas {
		urls = append(urls, r.node.URL(r.node.ID()))
	}
	return urls
}

// Client makes a client of the cell, with a network of its own: see Cut.
// Options may set any field of its Config. An option that sets Transport finds
// the cell's transport in the field and must call it.
func (c *Cell) Client(opts ...func(*client.Config)) *client.Client {
	w := newWay(c)
	config := client.Config{URLs: c.URLs(), Transport: w, Clock: func() time.Duration { return time.Since(c.start) }}
	for _, opt := range opts {
		opt(&config)
	}
	cl, err := config.New()
	if err != nil {
		c.fatalf("%v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[cl] = w
	return cl
}

// Master returns the id of the master, or "" without a master.
func (c *Cell) Master() string {
	if r := c.master(); r != nil {
		return r.node.ID()
	}
	return ""
}

// master returns the master, or nil without one.
func (c *Cell) master() *replica {
	for _, r := range c.replicas {
		if m := r.running(); m != nil && m.Known().Self {
			return r
		}
	}
	return nil
}

// inOffice returns the master. Without one it ends the test.
func (c *Cell) inOffice() *replica {
	r := c.master()
	if r == nil {
		c.fatalf("no replica is master")
	}
	return r
}

// elect makes a replica other than but the master, and waits until it is in
// office.
func (c *Cell) elect(but *replica) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	next := c.campaign(but)
	if next == nil {
		c.fatalf("no replica can be elected")
	}
	c.awaitOffice(ctx, next, 0)
}

// awaitOffice waits until an elected replica is in office, in this epoch or a
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

// campaign elects the first possible replica other than but, and returns it.
func (c *Cell) campaign(but *replica) *replica {
	for _, r := range c.replicas {
		if r != but && r.running() != nil && c.log.Campaign(r.node) {
			return r
		}
	}
	return nil
}

func (c *Cell) logger(id string) zerolog.Logger {
	if c.opts.Log == nil {
		return zerolog.Nop()
	}
	return zerolog.New(lines{id, c.opts.Log})
}

// lines passes a replica's log on, line by line.
type lines struct {
	id  string
	say func(replica, line string)
}

func (l lines) Write(b []byte) (int, error) {
	l.say(l.id, string(b))
	return len(b), nil
}
