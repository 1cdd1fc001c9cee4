package sim

import (
	"go/build"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestNoClock: a run is a function of its seed, so its packages import no
// clock, no goroutines and no I/O.
func TestNoClock(t *testing.T) {
	allowed := []string{"container/heap", "fmt", "math", "math/bits", "math/rand/v2", "slices", "strconv", "strings"}
	for _, dir := range []string{".", "../elect", "../mutex", "../spec"} {
		p, err := build.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.Imports {
			if !slices.Contains(allowed, name) && !strings.Contains(name, "stoutlab") {
				t.Errorf("%s imports %s", dir, name)
			}
		}
	}
}

// TestAgenda: events come in the order of their times, at the same time in the
// order in which they were added, timers last.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a agenda
		type entry struct {
			event
			taken int // when it was removed, as the number of events added before
		}
		var out []entry
		in := 0
		take := func() {
			e := a.next()
			if e.at != a.now {
				t.Fatalf("an event of %d comes at %d", e.at, a.now)
			}
			out = append(out, entry{e, in})
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if a.len > 0 && rapid.Bool().Draw(t, "take") {
				take()
				continue
			}
			in++
			ahead := rapid.SampledFrom([]Time{0, 1, 1, 2, 255, 256, 257, 1000}).Draw(t, "ahead")
			what := rapid.SampledFrom([]Action{Received, TimedOut}).Draw(t, "what")
			a.add(event{at: a.now + ahead, id: in, what: what})
		}
		for a.len > 0 {
			take()
		}
		seen := map[int]bool{}
		for i, e := range out {
			seen[e.id] = true
			for _, later := range out[i+1:] {
				waited := later.id <= e.taken // it was there when e was removed
				switch {
				case later.at < e.at:
					t.Fatalf("%+v comes before %+v", e, later)
				case later.at == e.at && waited && e.what == TimedOut && later.what != TimedOut:
					t.Fatalf("the timer %+v comes before %+v", e, later)
				case later.at == e.at && e.what == later.what && later.id < e.id:
					t.Fatalf("%+v comes before %+v, which was there first", e, later)
				}
			}
		}
		if len(seen) != in || len(out) != in {
			t.Fatalf("%d went in, %d came out", in, len(out))
		}
	})
}

// echo sends messages at the start as configured, and records the messages that
// it receives.
type echo struct {
	ID        int
	Sends     int
	Received  []int
	Fired     []int
	Suspected []int
	Resets    int
}

func (p *echo) Init(net *Port) {
	if p.ID == 0 {
		for i := range p.Sends {
			net.Send(1, Message{ID: i})
		}
		net.After(10, 1)
		net.After(5, 1) // reset: only this one counts
		net.After(7, 2)
		net.Stop(2)
	}
}
func (p *echo) Receive(_ *Port, m Message) { p.Received = append(p.Received, m.ID) }
func (p *echo) Timeout(net *Port, timer int) {
	p.Fired = append(p.Fired, timer, int(net.Now()))
}
func (p *echo) Suspect(_ *Port, peer int) { p.Suspected = append(p.Suspected, peer) }
func (p *echo) Restart()                  { p.Resets++ }

func echoes(cfg Config) ([]*echo, *Outcome) {
	all := make([]*echo, 2)
	cfg.N, cfg.Kinds = 2, []KindInfo{{Name: "m"}, {Name: "other"}}
	cfg.New = func(id int) Process {
		all[id] = &echo{ID: id, Sends: 20}
		return all[id]
	}
	return all, Run(cfg)
}

func TestLinksKeepOrder(t *testing.T) {
	overtaken := false
	for seed := range uint64(20) {
		p, _ := echoes(Config{Seed: seed, Latency: Latency{1, 9}})
		if !slices.IsSorted(p[1].Received) || len(p[1].Received) != 20 {
			t.Fatalf("seed %d: received %v", seed, p[1].Received)
		}
		p, _ = echoes(Config{Seed: seed, Latency: Latency{1, 9}, Reorder: true})
		overtaken = overtaken || !slices.IsSorted(p[1].Received)
	}
	if !overtaken {
		t.Error("with Reorder no message overtook another")
	}
}

func TestLossAndDuplicates(t *testing.T) {
	lost, _ := echoes(Config{Seed: 1, Loss: 0.5})
	twice, out := echoes(Config{Seed: 1, Twice: 0.5})
	if n := len(lost[1].Received); n == 0 || n == 20 {
		t.Errorf("with half of them lost %d of 20 came", n)
	}
	if n := len(twice[1].Received); n <= 20 || n >= 40 || out.Messages != 20 {
		t.Errorf("with half of them doubled %d of %d came", n, out.Messages)
	}
}

func TestTimers(t *testing.T) {
	p, _ := echoes(Config{})
	if !slices.Equal(p[0].Fired, []int{1, 5}) {
		t.Errorf("fired %v", p[0].Fired)
	}
	// A clock at twice the rate: 5 of its units end after 3 of true time, when
	// it shows 6.
	p, out := echoes(Config{Rates: []float64{2}})
	if !slices.Equal(p[0].Fired, []int{1, 6}) || out.Time != 3 {
		t.Errorf("fired %v, the last at %d", p[0].Fired, out.Time)
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name      string
		fault     Fault
		received  int
		suspected []int
	}{
		{"before the first", Fault{Process: 0, When: Trigger{Kind: 0}}, 0, []int{0}},
		{"before the third", Fault{Process: 0, When: Trigger{Kind: 0, Nth: 3}}, 2, []int{0}},
		{"after the first", Fault{Process: 0, When: Trigger{Kind: 0, After: true}}, 1, []int{0}},
		{"after the third", Fault{Process: 0, When: Trigger{Kind: 0, After: true, Nth: 3}}, 3, []int{0}},
		{"another kind", Fault{Process: 0, When: Trigger{Kind: 1}}, 20, nil},
		{"any kind", Fault{Process: 0, When: Trigger{Any: true, Kind: 9}}, 0, []int{0}},
		{"at the start", Fault{Process: 0, When: Trigger{Start: true}}, 0, []int{0}},
		{"cut off", Fault{Process: 0, When: Trigger{Kind: 0, After: true}, Do: CutOff}, 0, nil},
		{"slander", Fault{Process: 0, When: Trigger{Kind: 0, After: true}, Do: Suspect}, 20, nil},
	} {
		p, _ := echoes(Config{Faults: []Fault{c.fault}, Detector: Perfect})
		if len(p[1].Received) != c.received || !slices.Equal(p[1].Suspected, c.suspected) {
			t.Errorf("%s: received %d, suspected %v", c.name, len(p[1].Received), p[1].Suspected)
		}
	}
	p, _ := echoes(Config{Faults: []Fault{{Process: 0, When: Trigger{Kind: 0, After: true}, Do: Suspect}}, Detector: Inaccurate})
	if !slices.Equal(p[1].Suspected, []int{0}) {
		t.Errorf("the inaccurate detector reported %v", p[1].Suspected)
	}
	p, _ = echoes(Config{Faults: []Fault{{Process: 1, When: Trigger{Start: true}, Do: Reboot}}})
	if p[1].Resets != 1 {
		t.Error("it did not come back")
	}
}

// TestChain: the longest causal chain, not the number of messages.
func TestChain(t *testing.T) {
	_, out := echoes(Config{})
	if out.Chain != 1 || out.Messages != 20 || out.Events == 0 {
		t.Errorf("chain %d of %d messages", out.Chain, out.Messages)
	}
}

// TestBits: a kind out of two takes one bit, an id among five takes three.
func TestBits(t *testing.T) {
	k := KindInfo{Name: "election", Carries: "id by"}
	if got := k.bits(2, 5); got != 1+3+3 {
		t.Errorf("%d bits", got)
	}
	if got := k.text(Message{ID: 3, By: 1}); got != "election(3 by 1)" {
		t.Error(got)
	}
}

// pair: 0 sends to 1, which answers, and sends again when its timer fires.
type pair struct{ ID int }

func (p *pair) Init(net *Port) {
	if p.ID == 0 {
		net.Send(1, Message{})
		net.After(5, 0)
	}
}

func (p *pair) Receive(net *Port, m Message) {
	if p.ID == 1 && m.ID == 0 {
		net.Send(0, Message{ID: 1})
	}
}

func (p *pair) Timeout(net *Port, _ int) { net.Send(1, Message{ID: 2}) }

// TestChainGoesThroughProcesses: a message is caused by everything that its
// sender has received, not only by the event that triggered it.
func TestChainGoesThroughProcesses(t *testing.T) {
	out := Run(Config{N: 2, Kinds: []KindInfo{{Name: "m"}}, New: func(id int) Process { return &pair{id} }})
	if out.Chain != 3 { // there, back, and the third, although its timer was set at 0
		t.Errorf("chain %d", out.Chain)
	}
}

// around sends one message to the next, which passes it on.
type around struct{ ID, Received int }

func (p *around) Init(net *Port) {
	if p.ID < 2 {
		net.Next(Message{ID: p.ID, Kind: Kind(p.ID)})
	}
}
func (p *around) Receive(*Port, Message) { p.Received++ }
func (p *around) Timeout(*Port, int)     {}

// TestRingCloses: a message under way to a process that crashes is passed on.
func TestRingCloses(t *testing.T) {
	var all [3]*around
	Run(Config{
		N: 3, Kinds: []KindInfo{{Name: "a"}, {Name: "b"}}, Faults: []Fault{{Process: 1, When: Trigger{Kind: 1, After: true}}},
		New: func(id int) Process {
			all[id] = &around{ID: id}
			return all[id]
		},
	})
	if all[1].Received != 0 || all[2].Received != 2 {
		t.Errorf("the dead process received %d, the next %d", all[1].Received, all[2].Received)
	}
}
