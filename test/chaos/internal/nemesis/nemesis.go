package nemesis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/chaos/internal/service"
)

// fault is one kind of fault. A fault that is under way when ctx ends is undone
// early.
type fault struct {
	name     string
	about    string
	least    time.Duration // bounds of its length
	most     time.Duration
	size     int  // of the smallest cell for it
	points   bool // it gives orders to fault points
	releases bool // it needs two releases
	begin    begin
}

func (f *fault) fits(o *Options) bool {
	return len(o.Cell.Replicas()) >= f.size && (o.Points || !f.points) && (o.Present != "" || !f.releases)
}

type begin = func(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error)

// harm is the effect of a fault that has begun.
type harm struct {
	what   string // with the affected replicas
	failed bool   // it had no effect
	// replicas and links are those without a healthy disk, process or
	// connection, from the fault's begin to its end.
	replicas []*cell.Replica
	links    [][2]string
	undo     func() error // nil if the fault is over
}

var faults = slices.Concat(processFaults, networkFaults, diskFaults, operatorFaults, pointFaults)

// Names returns the names of the faults, with their descriptions.
func Names() map[string]string {
	names := map[string]string{}
	for _, f := range faults {
		names[f.name] = f.about
	}
	return names
}

// Options describe a nemesis.
type Options struct {
	Cell   *cell.Cell
	Seed   uint64
	Faults []string  // by name; empty: each that fits
	Log    io.Writer // one line for each begin and end
	Now    func() time.Duration
	// Present and Before are the stoutd of two releases; both are empty if
	// there is only one.
	Present, Before string
	// Upgrade is when every replica is given the present release, which it
	// keeps, so that the cell's level rises under faults.
	Upgrade time.Duration
	Points  bool // the stoutd has fault points
}

// Nemesis causes faults in one cell.
type Nemesis struct {
	Options
	chosen []fault
	keeper *Keeper
	orders orders // has a mutex of its own

	replacing sync.Mutex // held while a replica's directory is lost

	releasing sync.Mutex // held while a replica changes its release
	upgraded  bool       // no replica goes back to the previous one

	mu       sync.Mutex
	counts   map[string]int
	problems []error
	harms    []service.Harm
}

// New makes a nemesis. The error is about a named fault that is unknown or does
// not fit.
func New(opts Options) (*Nemesis, error) {
	n := &Nemesis{Options: opts, keeper: newKeeper(opts.Cell), counts: map[string]int{}, orders: orders{of: map[string]map[uint64]string{}}}
	for _, name := range opts.Faults {
		if _, known := Names()[name]; !known {
			return nil, fmt.Errorf("unknown fault %q; known are %v", name, slices.Sorted(maps.Keys(Names())))
		}
	}
	for _, f := range faults {
		named := slices.Contains(opts.Faults, f.name)
		switch fits := f.fits(&opts); {
		case named && !fits:
			return nil, fmt.Errorf("the fault %s does not fit a cell of %d replicas (stoutd with fault points: %t, two releases: %t)",
				f.name, len(opts.Cell.Replicas()), opts.Points, opts.Present != "")
		case fits && (named || len(opts.Faults) == 0):
			n.chosen = append(n.chosen, f)
		}
	}
	return n, nil
}

// Keeper returns the keeper, which knows the processes that the nemesis ended.
func (n *Nemesis) Keeper() *Keeper { return n.keeper }

// Counts returns the number of faults of each kind that had an effect.
func (n *Nemesis) Counts() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.counts)
}

// Harms returns all faults so far, with the affected replicas.
func (n *Nemesis) Harms() []service.Harm {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.harms)
}

// Run causes faults until ctx ends, undoes all of them, and heals the cell. The
// error lists the faults that it could not begin or undo.
func (n *Nemesis) Run(ctx context.Context) error {
	p := newPlan(n.Seed, n.chosen)
	var underWay, upgrading sync.WaitGroup
	upgrading.Go(func() { n.upgradeAll(ctx) })
	for {
		next := p.draw()
		if !cell.Pause(ctx, next.calm) {
			break
		}
		underWay.Go(func() { n.strike(ctx, next) })
		if !next.overlaps {
			underWay.Wait()
		}
	}
	underWay.Wait()
	upgrading.Wait()
	return errors.Join(append(n.problems, n.heal())...)
}

func (n *Nemesis) strike(ctx context.Context, f draw) {
	within, cancel := context.WithTimeout(ctx, f.lasts)
	defer cancel()
	from := n.Now()
	h, err := f.begin(within, f.random, n)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // the run ended in the middle of it
	}
	n.log("begin %s %s", f.name, h.what)
	n.mu.Lock()
	if !h.failed {
		n.counts[f.name]++
	}
	n.mu.Unlock()
	if h.undo != nil {
		<-within.Done()
		err = errors.Join(err, h.undo())
		n.log("end   %s %s", f.name, h.what)
	}
	n.note(f.name, h, from)
	if err != nil {
		n.log("error %s %s: %v", f.name, h.what, err)
		n.mu.Lock()
		n.problems = append(n.problems, fmt.Errorf("%s %s: %w", f.name, h.what, err))
		n.mu.Unlock()
	}
}

// note records a harm that is over now.
func (n *Nemesis) note(name string, h harm, from time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.harms = append(n.harms, service.Harm{Fault: name, What: h.what, Replicas: ids(h.replicas), Links: h.links, From: from, Until: n.Now()})
}

// heal repairs the whole cell, even after overlapping faults.
func (n *Nemesis) heal() error {
	var errs []error
	defer n.note("heal", harm{replicas: n.Cell.Replicas()}, n.Now())
	n.Cell.Network().Heal()
	for _, r := range n.Cell.Replicas() {
		errs = append(errs, n.keeper.resume(r), n.keeper.start(r))
	}
	for _, r := range n.Cell.Replicas() {
		errs = append(errs, n.present(r))
	}
	n.log("all faults are healed")
	return errors.Join(errs...)
}

func (n *Nemesis) log(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.Log, "%10.3f  %s\n", n.Now().Seconds(), fmt.Sprintf(format, args...))
}

// any returns a random replica; in half of the calls the master, if there is
// one.
func (n *Nemesis) any(ctx context.Context, r *rand.Rand) *cell.Replica {
	all := n.Cell.Replicas()
	chosen := all[r.IntN(len(all))]
	if r.IntN(2) == 0 {
		within, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		if master, err := n.Cell.Master(within); err == nil {
			return master
		}
	}
	return chosen
}

// some returns count replicas; any chooses the first of them.
func (n *Nemesis) some(ctx context.Context, r *rand.Rand, count int) []*cell.Replica {
	first := n.any(ctx, r)
	others := n.Cell.Others(first)
	r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return append([]*cell.Replica{first}, others[:count-1]...)
}

func ids(replicas []*cell.Replica) (all []string) {
	for _, r := range replicas {
		all = append(all, r.ID)
	}
	return all
}
