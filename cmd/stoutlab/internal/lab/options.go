package lab

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/elect"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// Options are a run as it is asked for. Empty texts are the defaults.
type Options struct {
	Algorithm  string
	N          int
	Initiators string // "all", "0,3"
	Order      string // "best", "worst", "random", "0,3,1,2"
	Latency    string // "1", "1..5"
	Seed       uint64
	Crash      []string // "5@elected"; see fault
	Cut        []string // as Crash: the process is cut off
	Reboot     []string // as Crash: it comes back after two bounds
	Detector   string
	Bound      int
	Entries    string  // "2", "0:1,1:1"
	Loss       float64 // the part of messages that is lost
	Duplicate  float64 // the part that arrives twice
	Reorder    bool
	Rates      string // of the clocks: "1,1.5"
	Lease      int
	Drift      float64
	FromReply  bool
	Trace      int
}

// Usage is an error in what was asked for.
type Usage struct{ text string }

func (u *Usage) Error() string { return u.text }

func usage(format string, args ...any) error { return &Usage{fmt.Sprintf(format, args...)} }

// maxUnits bounds latencies, bounds and leases.
const maxUnits = 1_000_000

// MaxN bounds the number of processes: rings of that size run in seconds.
const MaxN = 100_000

// maxCrowd bounds it where n² messages may be under way at a time.
const maxCrowd = 2000

// Plan is a run made ready.
type Plan struct {
	Algorithm spec.Algorithm
	Case      spec.Case
	Config    sim.Config
	Options   Options
}

// Prepare checks options and makes a run of them.
func Prepare(o Options) (*Plan, error) {
	a, err := Find(o.Algorithm)
	if err != nil {
		return nil, err
	}
	p := &Plan{Algorithm: a, Options: o}
	c := &p.Case
	if c.N = o.N; c.N == 0 {
		c.N = max(a.Default, 5*b2i(a.Default == 0))
	}
	if c.N < 1 || c.N > MaxN {
		return nil, usage("-n %d: there are 1 to %d processes", c.N, MaxN)
	}
	if a.Dead && c.N < 2 {
		return nil, usage("-n %d: %s needs 2 processes, of which the last has failed", c.N, a.Name)
	}
	if a.Crowd && c.N > maxCrowd {
		return nil, usage("-n %d: in %s all may talk to all at once, and up to %d processes are run", c.N, a.Name, maxCrowd)
	}
	c.Seed, c.Drift, c.FromReply = o.Seed, o.Drift, o.FromReply
	for _, read := range []func(*Plan) error{
		readNetwork, readInitiators, readOrder, readEntries, readDetector, readFaults, readClocks,
	} {
		if err := read(p); err != nil {
			return nil, err
		}
	}
	p.configure()
	return p, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// configure makes the network's part of the plan.
func (p *Plan) configure() {
	a, c, cfg := p.Algorithm, p.Case, &p.Config
	cfg.N, cfg.Extra, cfg.Kinds, cfg.Ring, cfg.Seed = c.N, a.Extra, a.Kinds, c.Ring, c.Seed
	cfg.New = func(id int) sim.Process { return a.New(c, id) }
	if a.Anew && cfg.Detector != sim.NoDetector {
		cfg.New = func(id int) sim.Process { return elect.BeginsAnew(a, c, id) }
	}
	cfg.Trace = p.Options.Trace
	if a.Until != nil {
		cfg.Until = a.Until(c)
	}
	if a.Family == spec.Mutex {
		all := sum(c.Entries)
		cfg.Causal = all*c.N*c.N <= maxCausal
		cfg.Limit = 5*c.N*c.N + 20_000 + all*(20*c.N+50)
		if a.Forever {
			cfg.Entries = c.Entries
		}
	}
}

// maxCausal bounds the vector clocks that a run keeps: each has n numbers, and
// each entry may cost n messages, which carry one each.
const maxCausal = 30_000_000

func sum(all []int) (s int) {
	for _, v := range all {
		s += v
	}
	return s
}
