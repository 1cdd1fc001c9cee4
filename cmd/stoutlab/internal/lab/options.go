package lab

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/elect"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// Options describe a run. Empty texts mean the defaults.
type Options struct {
	Algorithm  string
	N          int
	Initiators string // "all", "0,3"
	Order      string // "best", "worst", "random", "0,3,1,2"
	Latency    string // "1", "1..5"
	Seed       uint64
	Crash      []string // "5@elected"; see readFaults
	Cut        []string // as Crash: the process is cut off
	Reboot     []string // as Crash: the process restarts after two bounds
	Detector   string
	Bound      int
	Entries    string  // "2", "0:1,1:1"
	Loss       float64 // fraction of messages that are lost
	Duplicate  float64 // fraction of messages that arrive twice
	Reorder    bool
	Rates      string // of the clocks: "1,1.5"
	Lease      int
	Drift      float64
	FromReply  bool
	Trace      int
}

// Usage is an error in the options.
type Usage struct{ text string }

func (u *Usage) Error() string { return u.text }

func usage(format string, args ...any) error { return &Usage{fmt.Sprintf(format, args...)} }

// maxUnits bounds latencies, bounds and leases.
const maxUnits = 1_000_000

// MaxN bounds the number of processes: rings of that size run in seconds.
const MaxN = 100_000

// maxCrowd bounds it for algorithms that may have n² messages under way.
const maxCrowd = 2000

// Plan is a prepared run.
type Plan struct {
	Algorithm spec.Algorithm
	Case      spec.Case
	Config    sim.Config
	Options   Options
}

// Prepare checks the options and prepares their run.
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
		return nil, usage("-n %d: want 1 to %d processes", c.N, MaxN)
	}
	if a.Dead && c.N < 2 {
		return nil, usage("-n %d: %s needs at least 2 processes, because the last one has failed", c.N, a.Name)
	}
	if a.Crowd && c.N > maxCrowd {
		return nil, usage("-n %d: %s can have messages between all processes under way; want at most %d processes", c.N, a.Name, maxCrowd)
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
// each entry may cost n messages with one clock each.
const maxCausal = 30_000_000

func sum(all []int) (s int) {
	for _, v := range all {
		s += v
	}
	return s
}
