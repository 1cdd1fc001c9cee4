package explore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/explore"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

func walk(t *testing.T, o lab.Options, l explore.Limits) *explore.Result {
	t.Helper()
	p, err := lab.Prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	if l.Depth == 0 {
		l.Depth = 100
	}
	if l.States == 0 {
		l.States = 30_000
	}
	p.Case.Faulty = true
	return explore.Explore(p, l)
}

// TestAllSchedules explores every schedule of a few processes, and finds the
// violations that the books name, and no other.
func TestAllSchedules(t *testing.T) {
	const (
		holds  = ""
		dead   = "safety: which has crashed" // the crash of the leader is not noticed
		two    = "safety: and process"       // two leaders
		lower  = "safety: the best alive is" // a leader other than the best
		stuck  = "liveness: know no leader"
		waits  = "liveness: still wait"
		stuck1 = "liveness: knows no leader"
		wait1  = "liveness: still waits"
		loop   = "liveness: a state repeats"
	)
	rows := []struct {
		algorithm string
		n         int
		more      lab.Options
		limits    explore.Limits
		breaks    []string
	}{
		// Without failures.
		{"ring", 4, lab.Options{}, explore.Limits{}, nil},
		{"ring", 4, lab.Options{Initiators: "all"}, explore.Limits{}, nil},
		{"ring-naive", 4, lab.Options{Initiators: "all"}, explore.Limits{}, nil},
		{"chang-roberts", 4, lab.Options{Initiators: "all", Order: "worst"}, explore.Limits{}, nil},
		{"lcr", 4, lab.Options{Order: "worst"}, explore.Limits{}, nil},
		{"hs", 4, lab.Options{Order: "worst"}, explore.Limits{}, nil},
		{"sync-ring", 4, lab.Options{}, explore.Limits{}, nil},
		{"anonymous", 4, lab.Options{}, explore.Limits{}, []string{stuck}},
		{"itai-rodeh", 4, lab.Options{Seed: 1}, explore.Limits{}, nil},
		{"multicast", 3, lab.Options{Initiators: "all"}, explore.Limits{}, nil},
		{"multicast", 4, lab.Options{Initiators: "2"}, explore.Limits{}, nil},
		{"multicast-timeout", 3, lab.Options{Initiators: "all"}, explore.Limits{}, nil},
		{"multicast-timeout", 4, lab.Options{Initiators: "2"}, explore.Limits{}, nil},
		{"multicast-disagree", 4, lab.Options{Initiators: "1,2"}, explore.Limits{}, nil},
		{"bully", 4, lab.Options{}, explore.Limits{}, nil},
		{"bully", 4, lab.Options{Initiators: "all"}, explore.Limits{}, nil},
		{"zookeeper", 4, lab.Options{}, explore.Limits{}, nil},
		{"zookeeper", 4, lab.Options{Initiators: "all"}, explore.Limits{}, []string{stuck}},
		{"zookeeper-herd", 4, lab.Options{}, explore.Limits{}, nil},
		{"central", 4, lab.Options{Entries: "2"}, explore.Limits{}, nil},
		{"token-ring", 4, lab.Options{}, explore.Limits{}, nil},
		{"token-ring", 3, lab.Options{Entries: "0:2"}, explore.Limits{}, nil},
		{"ricart-agrawala", 3, lab.Options{}, explore.Limits{}, nil},
		{"ricart-agrawala", 4, lab.Options{Entries: "0:1,1:1,3:1"}, explore.Limits{}, nil},
		{"maekawa", 3, lab.Options{Entries: "1"}, explore.Limits{}, []string{waits}},
		{"maekawa", 4, lab.Options{Entries: "0:1,3:1"}, explore.Limits{}, []string{waits}},
		{"maekawa-deadlock-free", 3, lab.Options{Entries: "1"}, explore.Limits{}, nil},
		{"maekawa-deadlock-free", 4, lab.Options{Entries: "0:1,3:1"}, explore.Limits{}, nil},
		{"stout", 4, lab.Options{}, explore.Limits{}, nil},

		// One process crashes, at any time.
		{"ring", 4, lab.Options{}, explore.Limits{Crashes: 1}, []string{dead, loop}},
		{"ring", 3, lab.Options{Detector: "perfect"}, explore.Limits{Crashes: 1}, nil},
		{"ring", 4, lab.Options{Detector: "incomplete"}, explore.Limits{Crashes: 1}, []string{dead, loop}},
		{"ring", 3, lab.Options{Detector: "perfect", Initiators: "1"}, explore.Limits{Crashes: 2}, nil},
		{"ring-naive", 3, lab.Options{Detector: "perfect"}, explore.Limits{Crashes: 2}, nil},
		{"chang-roberts", 3, lab.Options{Detector: "perfect"}, explore.Limits{Crashes: 2}, nil},
		{"lcr", 3, lab.Options{Detector: "perfect"}, explore.Limits{Crashes: 2}, nil},
		{"ring-naive", 4, lab.Options{}, explore.Limits{Crashes: 1}, []string{dead, loop}},
		{"chang-roberts", 4, lab.Options{Initiators: "all"}, explore.Limits{Crashes: 1}, []string{dead, loop}},
		{"lcr", 4, lab.Options{}, explore.Limits{Crashes: 1}, []string{dead, loop}},
		{"hs", 3, lab.Options{}, explore.Limits{Crashes: 1}, []string{dead, loop}},
		{"sync-ring", 4, lab.Options{}, explore.Limits{Crashes: 1}, []string{dead, loop}},
		{"multicast", 3, lab.Options{}, explore.Limits{Crashes: 1}, []string{dead, stuck}},
		{"multicast-timeout", 3, lab.Options{}, explore.Limits{Crashes: 1}, []string{dead, stuck}},
		{"multicast-disagree", 3, lab.Options{}, explore.Limits{Crashes: 1}, []string{dead, stuck}},
		{"bully", 4, lab.Options{}, explore.Limits{Crashes: 1}, []string{dead}},
		{"bully", 4, lab.Options{Detector: "perfect"}, explore.Limits{Crashes: 1}, nil},
		{"zookeeper", 3, lab.Options{}, explore.Limits{Crashes: 1}, nil},
		{"zookeeper-herd", 3, lab.Options{}, explore.Limits{Crashes: 1}, nil},
		{"central", 4, lab.Options{}, explore.Limits{Crashes: 1}, []string{waits, wait1}},
		{"token-ring", 4, lab.Options{}, explore.Limits{Crashes: 1}, []string{waits, wait1}},
		{"ricart-agrawala", 3, lab.Options{}, explore.Limits{Crashes: 1}, []string{waits, wait1}},
		{"maekawa-deadlock-free", 3, lab.Options{}, explore.Limits{Crashes: 1}, []string{waits, wait1}},
		{"stout", 3, lab.Options{}, explore.Limits{Crashes: 1}, nil},

		// Wrong time-outs.
		{"multicast", 3, lab.Options{}, explore.Limits{Async: true}, nil}, // it has no time-outs
		{"multicast-timeout", 3, lab.Options{Initiators: "1"}, explore.Limits{Async: true}, []string{two, lower}},
		{"multicast-disagree", 3, lab.Options{Initiators: "1"}, explore.Limits{Async: true}, []string{two, lower}},
		{"sync-ring", 3, lab.Options{}, explore.Limits{Async: true}, []string{two}},
	}
	for _, c := range rows {
		name := fmt.Sprintf("%s/%d/%d crashes/%s", c.algorithm, c.n, c.limits.Crashes, c.more.Detector)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.more.Algorithm, c.more.N = c.algorithm, c.n
			r := walk(t, c.more, c.limits)
			if !r.Complete {
				t.Errorf("not all schedules were explored: %d states", r.States)
			}
			found := map[string]bool{}
			for _, b := range r.Broken {
				known := false
				for _, kind := range c.breaks {
					property, text, _ := strings.Cut(kind, ": ")
					if strings.HasPrefix(b, property) && strings.Contains(b, text) {
						known, found[kind] = true, true
					}
				}
				if !known {
					t.Errorf("no book names this: %s\n%s", b, strings.Join(r.Counterexample.Schedule, "\n"))
				}
			}
			for _, kind := range c.breaks {
				if !found[kind] {
					t.Errorf("%q was not found among %q", kind, r.Broken)
				}
			}
			if (len(c.breaks) == 0) != (r.Counterexample == nil) {
				t.Errorf("counterexample %+v", r.Counterexample)
			}
		})
	}
}

// TestAsyncBully: with wrong time-outs, processes believe in two coordinators.
func TestAsyncBully(t *testing.T) {
	r := walk(t, lab.Options{Algorithm: "bully", N: 4, Initiators: "1"}, explore.Limits{Async: true, States: 3000})
	if r.Safety {
		t.Errorf("%d states, %q", r.States, r.Broken)
	}
}

// TestInaccurateRing: a detector that names a live process makes two leaders.
// Some schedules never end: the round grows with each new run.
func TestInaccurateRing(t *testing.T) {
	r := walk(t, lab.Options{Algorithm: "ring", N: 3, Detector: "inaccurate"}, explore.Limits{Depth: 60})
	if r.Safety || r.Complete {
		t.Errorf("%d states, %q", r.States, r.Broken)
	}
}

// TestWalksByChance: if there are too many schedules to explore all, random
// ones are taken to their ends.
func TestWalksByChance(t *testing.T) {
	r := walk(t, lab.Options{Algorithm: "maekawa", N: 4, Entries: "1"}, explore.Limits{States: 500})
	if r.Complete || r.Liveness || r.Counterexample == nil || r.Counterexample.Shortest {
		t.Errorf("%+v", r)
	}
	r = walk(t, lab.Options{Algorithm: "maekawa-deadlock-free", N: 4, Entries: "1"}, explore.Limits{States: 500})
	if r.Complete || r.Walks != 300 || r.Counterexample != nil {
		t.Errorf("%+v", r)
	}
}

// TestChubbyExplored: arbitrary delays and one crash make no two masters,
// within the limits of the exploration.
func TestChubbyExplored(t *testing.T) {
	o := lab.Options{Algorithm: "chubby", N: 3, Lease: 8, Drift: 0.01, Initiators: "0,1"}
	if r := walk(t, o, explore.Limits{Async: true, States: 8000, Depth: 40, Crashes: 1}); !r.Safety {
		t.Errorf("%v", r.Counterexample)
	}
}

// TestShortest: the deadlock of three needs three requests to oneself and three
// to the next; the votes need not arrive.
func TestShortest(t *testing.T) {
	r := walk(t, lab.Options{Algorithm: "maekawa", N: 3, Entries: "1"}, explore.Limits{})
	if got := len(r.Counterexample.Schedule); got != 9 {
		t.Errorf("%d steps:\n%s", got, strings.Join(r.Counterexample.Schedule, "\n"))
	}
}

// TestEqualStatesAreOne: without this pruning there would be many more
// schedules.
func TestEqualStatesAreOne(t *testing.T) {
	r := walk(t, lab.Options{Algorithm: "lcr", N: 4, Order: "worst"}, explore.Limits{})
	if !r.Complete || r.States > 500 || r.Schedules != 1 {
		t.Errorf("%d states, %d ends", r.States, r.Schedules)
	}
}

// TestMutantIsExplored: a vote given twice lets two processes in, in some
// schedule.
func TestMutantIsExplored(t *testing.T) {
	p, err := lab.Prepare(lab.Options{Algorithm: "maekawa", N: 3, Entries: "1"})
	if err != nil {
		t.Fatal(err)
	}
	sound := p.Config.New
	p.Config.New = func(id int) sim.Process { return &twice{sound(id)} }
	if r := explore.Explore(p, explore.Limits{Depth: 60, States: 5000}); r.Safety {
		t.Error("not found")
	}
}

// twice receives every request twice, and so votes twice.
type twice struct{ sim.Process }

func (p *twice) String() string { return sim.State(p.Process) }

func (p *twice) Receive(net *sim.Port, m sim.Message) {
	p.Process.Receive(net, m)
	if m.Kind == 2 { // a release frees the vote; here another vote does, too
		p.Process.Receive(net, m)
	}
	if m.Kind == 0 {
		p.Process.Receive(net, sim.Message{Kind: 2, From: m.From, To: m.To})
	}
}

// TestStayEndsAtAnyTime: a process leaves while messages are under way, so that
// a request may reach it later.
func TestStayEndsAtAnyTime(t *testing.T) {
	p, err := lab.Prepare(lab.Options{Algorithm: "ricart-agrawala", N: 3, Reorder: true})
	if err != nil {
		t.Fatal(err)
	}
	sound := p.Config.New
	p.Config.New = func(id int) sim.Process { return &silent{Process: sound(id)} }
	if r := explore.Explore(p, explore.Limits{Depth: 60, States: 5000}); r.Liveness {
		t.Error("not found")
	}
}

// silent answers no request once it has left.
type silent struct {
	sim.Process
	left bool
}

func (p *silent) String() string { return fmt.Sprint(sim.State(p.Process), p.left) }

func (p *silent) Receive(net *sim.Port, m sim.Message) {
	if m.Kind != 0 || !p.left {
		p.Process.Receive(net, m)
	}
}

func (p *silent) Timeout(net *sim.Port, timer int) {
	p.Process.Timeout(net, timer)
	p.left = true
}
