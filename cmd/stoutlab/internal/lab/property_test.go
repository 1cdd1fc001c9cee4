package lab_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// reliable returns the algorithms that must hold in every network without loss
// and within its bound.
func reliable() []string {
	var names []string
	for _, a := range lab.Algorithms() {
		if a.Name != "anonymous" && a.Name != "maekawa" {
			names = append(names, a.Name)
		}
	}
	return names
}

// drawRun draws a run in a network without loss and within its bound.
func drawRun(t *rapid.T) lab.Options {
	o := lab.Options{
		Algorithm: rapid.SampledFrom(reliable()).Draw(t, "algorithm"),
		N:         rapid.IntRange(2, 9).Draw(t, "n"),
		Seed:      rapid.Uint64Range(0, 1<<20).Draw(t, "seed"),
		Latency:   rapid.SampledFrom([]string{"1", "1..2", "1..5", "3..20"}).Draw(t, "latency"),
		Drift:     0.01,
	}
	a, _ := lab.Find(o.Algorithm)
	if a.Ring {
		o.Order = "random"
	}
	switch {
	case a.Family == spec.Mutex:
		o.Entries = fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "entries"))
	case a.ChoosesInitiators() && !a.NoInitiator:
		o.Initiators = drawIDs(t, o.N-b2i(a.Dead))
	}
	return o
}

func drawIDs(t *rapid.T, n int) string {
	ids := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, n, rapid.ID[int]).Draw(t, "initiators")
	var words []string
	for _, id := range ids {
		words = append(words, fmt.Sprint(id))
	}
	return strings.Join(words, ",")
}

// TestHolds: without failures, safety and liveness hold and the counts are
// within the book's range, in every network and every arrangement.
func TestHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawRun(t)
		r := run(t, o)
		if !r.Good() || r.Within != nil && !*r.Within {
			t.Fatalf("%+v: %v; %d messages, turnaround %d, expected %+v", o, r.Violation, r.Messages.Total, r.Turnaround, r.Expected)
		}
	})
}

// TestSeedDecides: a run is a function of its options.
func TestSeedDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawRun(t)
		o.Trace, o.Loss, o.Duplicate, o.Reorder = 1000, 0.1, 0.1, true
		text := func() string {
			r := run(t, o)
			all, err := json.Marshal([]any{r, r.Outcome.Trace})
			if err != nil {
				t.Fatal(err)
			}
			return string(all)
		}
		if a, b := text(), text(); a != b {
			t.Fatalf("%+v:\n%s\n%s", o, a, b)
		}
	})
}

// TestLamportClocks: each process's clock grows, and a message is received at a
// later time than it was sent.
func TestLamportClocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawRun(t)
		o.Trace, o.Duplicate, o.Reorder = 3000, 0.2, true
		sent := map[int]sim.Record{}
		last := map[int]int{}
		for _, rec := range run(t, o).Outcome.Trace {
			if rec.What != sim.Dropped && rec.Lamport < last[rec.Process] {
				t.Fatalf("the clock of %d goes back: %+v", rec.Process, rec)
			}
			last[rec.Process] = max(rec.Lamport, last[rec.Process])
			switch rec.What {
			case sim.Sent:
				sent[rec.Message] = rec
			case sim.Received:
				if s := sent[rec.Message]; s.Lamport >= rec.Lamport || s.At > rec.At {
					t.Fatalf("received at %d (%d) what was sent at %d (%d)", rec.Lamport, rec.At, s.Lamport, s.At)
				}
			}
		}
	})
}

// TestMutexIsSafeAnyway: no fault of the network lets two processes in, not
// even crashes. (Duplicate messages may: the algorithms require channels
// without them.)
func TestMutexIsSafeAnyway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawRun(t)
		o.Algorithm = rapid.SampledFrom([]string{"central", "token-ring", "ricart-agrawala", "maekawa", "maekawa-deadlock-free"}).Draw(t, "mutex")
		o.Initiators, o.Order, o.Entries = "", "", "2"
		o.Loss = rapid.Float64Range(0, 0.3).Draw(t, "loss")
		o.Crash = []string{fmt.Sprintf("%d@any#%d", rapid.IntRange(0, o.N-1).Draw(t, "who"), rapid.IntRange(1, 8).Draw(t, "when"))}
		if r := run(t, o); !r.Safety {
			t.Fatalf("%+v: %v", o, r.Violation)
		}
	})
}

// TestChubbyNeverTwo: with clocks within the bound, no crash, restart, cut,
// loss, delay or duplicate makes two masters.
func TestChubbyNeverTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := lab.Options{
			Algorithm: "chubby", N: rapid.IntRange(3, 6).Draw(t, "n"), Seed: rapid.Uint64Range(0, 1<<20).Draw(t, "seed"),
			Latency: rapid.SampledFrom([]string{"1", "1..9", "1..40"}).Draw(t, "latency"),
			Lease:   rapid.IntRange(8, 60).Draw(t, "lease"), Drift: rapid.Float64Range(0, 0.2).Draw(t, "drift"),
			Bound: 5, Reorder: true, Initiators: "0,1,2",
			Loss: rapid.Float64Range(0, 0.3).Draw(t, "loss"), Duplicate: rapid.Float64Range(0, 0.5).Draw(t, "duplicate"),
		}
		var rates []string
		for range o.N {
			rates = append(rates, fmt.Sprint(1+o.Drift*rapid.Float64Range(-1, 1).Draw(t, "rate")))
		}
		o.Rates = strings.Join(rates, ",")
		when := func(name string) []string {
			return []string{fmt.Sprintf("%d@any#%d", rapid.IntRange(0, o.N-1).Draw(t, name), rapid.IntRange(1, 40).Draw(t, "when"))}
		}
		o.Cut, o.Reboot = when("cut"), append(when("reboot"), when("reboot")...)
		if r := run(t, o); !r.Safety {
			t.Fatalf("%+v: %v", o, r.Violation)
		}
	})
}

// TestCrashesAreRiddenOut: a perfect detector, and crashes of any minority at
// any moment in any network within its bound. One process that knows of the
// election survives.
func TestCrashesAreRiddenOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := lab.Options{
			Algorithm: rapid.SampledFrom([]string{"ring", "ring-naive", "chang-roberts", "lcr", "hs", "bully", "zookeeper", "zookeeper-herd", "stout"}).Draw(t, "algorithm"),
			N:         rapid.IntRange(5, 8).Draw(t, "n"), Detector: "perfect",
			Seed:    rapid.Uint64Range(0, 1<<20).Draw(t, "seed"),
			Latency: rapid.SampledFrom([]string{"1", "1..3", "2..9"}).Draw(t, "latency"),
		}
		if a, _ := lab.Find(o.Algorithm); a.Ring {
			o.Order = "random"
			o.Initiators = drawIDs(t, o.N)
		}
		knows := 0 // the first initiator
		fmt.Sscan(o.Initiators, &knows)
		for range rapid.IntRange(0, 2).Draw(t, "crashes") {
			peer := rapid.IntRange(0, o.N-1).Filter(func(id int) bool { return id != knows }).Draw(t, "who")
			crash := fmt.Sprintf("%d@%s#%d", peer,
				rapid.SampledFrom([]string{"any", "after-any"}).Draw(t, "when"), rapid.IntRange(1, 12).Draw(t, "nth"))
			o.Crash = append(o.Crash, crash)
		}
		if r := run(t, o); !r.Good() {
			t.Fatalf("%+v: %v", o, r.Violation)
		}
	})
}

// TestCrashAnywhere crashes every process at every point of its run: just
// before and just after each of its messages. These algorithms tolerate that.
func TestCrashAnywhere(t *testing.T) {
	for _, o := range []lab.Options{
		{Algorithm: "ring", N: 5, Detector: "perfect"},
		{Algorithm: "ring", N: 4, Detector: "perfect", Initiators: "all", Order: "worst"},
		{Algorithm: "ring-naive", N: 5, Detector: "perfect", Initiators: "0,2"},
		{Algorithm: "chang-roberts", N: 5, Detector: "perfect", Latency: "1..6"},
		{Algorithm: "lcr", N: 5, Detector: "perfect", Order: "worst"},
		{Algorithm: "hs", N: 5, Detector: "perfect", Order: "worst"},
		{Algorithm: "bully", N: 5, Detector: "perfect"},
		{Algorithm: "bully", N: 5, Detector: "perfect", Latency: "1..6", Seed: 5},
		{Algorithm: "zookeeper", N: 5},
		{Algorithm: "zookeeper-herd", N: 5},
		{Algorithm: "chubby", N: 5, Lease: 12, Drift: 0.01},
		{Algorithm: "stout", N: 4, Entries: "2"},
	} {
		eachCrash(t, o, func(o lab.Options, r *lab.Result) {
			if !r.Good() && r.Messages.Total > 0 { // otherwise it died before any process knew
				t.Errorf("%+v: %v", o, r.Violation)
			}
		})
	}
}

// TestCrashWithoutDetector: without a detector the rings may run forever or
// elect no leader, but never elect two.
func TestCrashWithoutDetector(t *testing.T) {
	for _, name := range []string{"ring", "ring-naive", "chang-roberts", "lcr", "hs"} {
		stuck := 0
		eachCrash(t, lab.Options{Algorithm: name, N: 5, Order: "worst"}, func(o lab.Options, r *lab.Result) {
			stuck += b2i(!r.Liveness)
			leaders := map[int]bool{}
			for _, l := range r.Leaders {
				if l != nil {
					leaders[*l] = true
				}
			}
			if len(leaders) > 1 {
				t.Errorf("%+v: leaders %v", o, leaders)
			}
		})
		if stuck == 0 {
			t.Errorf("%s: no crash did any harm", name)
		}
	}
}

// TestCrashesBreak: the violations that the crash of one process, at any point
// of its run, causes in each algorithm without a detector: exactly these.
// Processes believe in a dead best process if it crashed after it had begun to
// announce itself. The service and the master's lease tolerate every crash.
func TestCrashesBreak(t *testing.T) {
	const (
		dead  = "believed in though it crashed"
		other = "another is believed in"
		loop  = "never ends"
		stuck = "no leader known"
		waits = "somebody waits"
	)
	for _, c := range []struct {
		o      lab.Options
		breaks []string
	}{
		{lab.Options{Algorithm: "ring"}, []string{dead, loop, stuck}},
		{lab.Options{Algorithm: "ring", Initiators: "all", Order: "worst"}, []string{dead, loop, stuck}},
		{lab.Options{Algorithm: "ring-naive"}, []string{dead, loop, stuck}},
		{lab.Options{Algorithm: "ring-naive", Initiators: "0,2"}, []string{dead, loop}},
		{lab.Options{Algorithm: "chang-roberts"}, []string{dead, loop, stuck}},
		{lab.Options{Algorithm: "chang-roberts", Initiators: "all", Order: "worst"}, []string{dead, loop, stuck}},
		{lab.Options{Algorithm: "lcr"}, []string{dead, loop, stuck}},
		{lab.Options{Algorithm: "hs"}, []string{dead, loop, stuck}},
		{lab.Options{Algorithm: "anonymous"}, []string{stuck}},
		{lab.Options{Algorithm: "itai-rodeh"}, []string{dead, loop, stuck}},
		{lab.Options{Algorithm: "sync-ring"}, []string{dead, other}},
		{lab.Options{Algorithm: "multicast"}, []string{dead, stuck}},
		{lab.Options{Algorithm: "multicast-timeout"}, []string{dead, stuck}},
		{lab.Options{Algorithm: "multicast-disagree"}, []string{dead, stuck}},
		{lab.Options{Algorithm: "bully"}, []string{dead, stuck}},
		{lab.Options{Algorithm: "zookeeper"}, nil},
		{lab.Options{Algorithm: "zookeeper-herd"}, nil},
		{lab.Options{Algorithm: "chubby", Lease: 12, Drift: 0.01}, nil},
		{lab.Options{Algorithm: "central"}, []string{waits}},
		{lab.Options{Algorithm: "token-ring"}, []string{waits}},
		{lab.Options{Algorithm: "ricart-agrawala"}, []string{waits}},
		{lab.Options{Algorithm: "maekawa", Entries: "0:1"}, []string{waits}},
		{lab.Options{Algorithm: "maekawa-deadlock-free"}, []string{waits}},
		{lab.Options{Algorithm: "stout"}, nil},
	} {
		c.o.N = 5
		found := map[string]string{}
		eachCrash(t, c.o, func(o lab.Options, r *lab.Result) {
			if r.Violation == nil {
				return
			}
			what := r.Violation.Event
			for _, kind := range [][2]string{
				{"which has crashed", dead}, {"believes in", other}, {"never ends", loop}, {"has not ended", loop},
				{"no leader", stuck}, {"still wait", waits},
			} {
				if strings.Contains(what, kind[0]) {
					what = kind[1]
					break
				}
			}
			found[what] = fmt.Sprintf("%+v: %v", o, r.Violation)
		})
		for _, kind := range c.breaks {
			if found[kind] == "" {
				t.Errorf("%s: no crash has %q", c.o.Algorithm, kind)
			}
			delete(found, kind)
		}
		for kind, run := range found {
			t.Errorf("%s: a crash has %q: %s", c.o.Algorithm, kind, run)
		}
	}
}

// TestRingCountsExactly: on any ring, the numbers of messages of lcr,
// chang-roberts, hs and ring follow from the arrangement and can be computed
// without a run.
func TestRingCountsExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "n")
		ring := rapid.Permutation(spec.Ascending(n, nil)).Draw(t, "ring")
		o := lab.Options{N: n, Initiators: "all", Order: strings.Trim(strings.ReplaceAll(fmt.Sprint(ring), " ", ","), "[]")}
		// hops is how far an id travels before it meets a better one.
		hops := func(at, step int) (k int) {
			for k = 1; k < n && ring[((at+k*step)%n+n)%n] < ring[at]; k++ {
			}
			return k
		}
		elections, reach := 0, make([]int, n)
		for at := range ring {
			elections += hops(at, +1)
			reach[at] = min(hops(at, +1), hops(at, -1))
		}
		for _, o.Algorithm = range []string{"lcr", "chang-roberts"} {
			if k := run(t, o).Messages.ByKind; k["election"] != elections || k["elected"] != n {
				t.Fatalf("%+v: %v, want %d", o, k, elections)
			}
		}
		o.Algorithm = "hs" // the best process within 2^k on both sides wins phase k
		var winners []int
		for reachOf := 1; reachOf < n; reachOf *= 2 {
			won := 0
			for at := range ring {
				won += b2i(reach[at] > reachOf || ring[at] == n-1)
			}
			winners = append(winners, won)
		}
		if got := run(t, o).WinnersPerPhase; fmt.Sprint(got) != fmt.Sprint(winners) {
			t.Fatalf("%+v: winners %v, want %v", o, got, winners)
		}
		first := rapid.IntRange(0, n-1).Draw(t, "first")
		at, best := slices.Index(ring, first), slices.Index(ring, n-1)
		o.Initiators = fmt.Sprint(first)
		for _, o.Algorithm = range []string{"ring", "ring-naive", "chang-roberts"} {
			if r := run(t, o); r.Messages.Total != 2*n+(best-at+n)%n || r.Turnaround != r.Messages.Total {
				t.Fatalf("%+v: %d messages in %d", o, r.Messages.Total, r.Turnaround)
			}
		}
	})
}

// eachCrash makes a run for every process and every message of it.
func eachCrash(t *testing.T, o lab.Options, check func(lab.Options, *lab.Result)) {
	t.Helper()
	whole := run(t, withTrace(o))
	sends := map[int]int{}
	for _, rec := range whole.Outcome.Trace {
		if rec.What == sim.Sent && rec.Process < o.N {
			sends[rec.Process]++
		}
	}
	for peer, count := range sends {
		for k := 1; k <= min(count, 25); k++ {
			for _, when := range []string{"any", "after-any"} {
				at := o
				at.Crash = []string{fmt.Sprintf("%d@%s#%d", peer, when, k)}
				check(at, run(t, at))
			}
		}
	}
}

func withTrace(o lab.Options) lab.Options {
	o.Trace = 5000
	return o
}

// TestLargeRing: millions of messages in a fraction of a second;
// BenchmarkMessages has the figure.
func TestLargeRing(t *testing.T) {
	r := good(t, lab.Options{Algorithm: "lcr", N: 1500, Order: "worst"})
	if r.Messages.Total != 1500*1501/2+1500 {
		t.Errorf("%d messages", r.Messages.Total)
	}
}

func BenchmarkMessages(b *testing.B) {
	messages := 0
	for b.Loop() {
		messages += run(b, lab.Options{Algorithm: "lcr", N: 1000, Order: "worst"}).Messages.Total
	}
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "messages/s")
}
