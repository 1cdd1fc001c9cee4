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

// fault is one kind of harm. A fault that is under way when ctx ends is undone
// early.
type fault struct {
	name   string
	about  string
	least  time.Duration // how long it is let be
	most   time.Duration
	size   int  // of the smallest cell that it is for
	points bool // it gives orders to fault points
	begin  begin
}

type begin = func(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error)

// harm is what a fault has begun.
type harm struct {
	what string // and to which replicas
	// replicas and links are those that have no healthy disk, process or connection,
	// from the fault's begin to its end.
	replicas []*cell.Replica
	links    [][2]string
	undo     func() error // nil where the fault is over
}

// faults are all there are.
var faults = slices.Concat(processFaults, networkFaults, diskFaults, operatorFaults, pointFaults)

// Names are the names of the faults, with what they do.
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
	Faults []string  // by name; empty for all
	Log    io.Writer // one line for each begin and end
	Now    func() time.Duration
	// Present and Before are the stoutd of two releases; empty where there is one.
	Present, Before string
	// Points says that the stoutd has fault points. Faults that need them are left out
	// otherwise.
	Points bool
}

// Nemesis is at work on one cell.
type Nemesis struct {
	Options
	chosen []fault
	keeper *Keeper
	orders orders // has a mutex of its own

	replacing sync.Mutex // while a replica's directory is lost

	mu       sync.Mutex
	counts   map[string]int
	problems []error
	harms    []service.Harm
}

// New makes a nemesis. The error names faults that there are not.
func New(opts Options) (*Nemesis, error) {
	n := &Nemesis{Options: opts, keeper: newKeeper(opts.Cell), counts: map[string]int{}, orders: orders{of: map[string]map[uint64]string{}}}
	for _, name := range opts.Faults {
		if _, known := Names()[name]; !known {
			return nil, fmt.Errorf("there is no fault %q; there are %v", name, slices.Sorted(maps.Keys(Names())))
		}
	}
	for _, f := range faults {
		wanted := len(opts.Faults) == 0 || slices.Contains(opts.Faults, f.name)
		if wanted && len(opts.Cell.Replicas()) >= f.size && (opts.Points || !f.points) {
			n.chosen = append(n.chosen, f)
		}
	}
	if len(n.chosen) == 0 {
		return nil, fmt.Errorf("none of the faults %v is for a cell of %d replicas, with the fault points that its stoutd has (%t)", opts.Faults, len(opts.Cell.Replicas()), opts.Points)
	}
	return n, nil
}

// Keeper says which processes the nemesis ended.
func (n *Nemesis) Keeper() *Keeper { return n.keeper }

// Counts is how many faults of each kind were done.
func (n *Nemesis) Counts() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.counts)
}

// Harms are all that was done, and to which replicas.
func (n *Nemesis) Harms() []service.Harm {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.harms)
}

// Run does harm until ctx ends, undoes all of it, and heals the cell. The error
// tells what could not be done or undone.
func (n *Nemesis) Run(ctx context.Context) error {
	p := newPlan(n.Seed, n.chosen)
	var underWay sync.WaitGroup
	for {
		next := p.draw()
		if !pause(ctx, next.calm) {
			break
		}
		underWay.Go(func() { n.strike(ctx, next) })
		if !next.overlaps {
			underWay.Wait()
		}
	}
	underWay.Wait()
	return errors.Join(append(n.problems, n.heal())...)
}

// strike does one fault from begin to end.
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
	n.counts[f.name]++
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

// note keeps a harm that is over now.
func (n *Nemesis) note(name string, h harm, from time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.harms = append(n.harms, service.Harm{Fault: name, What: h.what, Replicas: ids(h.replicas), Links: h.links, From: from, Until: n.Now()})
}

// heal leaves the cell whole, whatever overlapped.
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
	n.log("all is healed")
	return errors.Join(errs...)
}

func (n *Nemesis) log(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.Log, "%10.3f  %s\n", n.Now().Seconds(), fmt.Sprintf(format, args...))
}

// pause waits for d, and reports whether ctx has not ended by then.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// any is a replica by chance, every other time the master where there is one.
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

// some are n replicas, the first of them as any chooses.
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
