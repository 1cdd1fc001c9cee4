package lab_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

// mutant is a process with a fault: its fields are changed after each step, or
// messages before it receives them. A message of kind drop is not received.
type mutant struct {
	sim.Process
	after  func(fields reflect.Value)
	before func(m *sim.Message) (received bool)
}

func (m *mutant) tamper() {
	if m.after == nil {
		return
	}
	fields := reflect.ValueOf(m.Process).Elem()
	if inner := fields.FieldByName("Lock"); inner.IsValid() {
		fields = inner.Elem().Elem()
	}
	m.after(fields)
}

func (m *mutant) Init(net *sim.Port) {
	m.Process.Init(net)
	m.tamper()
}

func (m *mutant) Receive(net *sim.Port, msg sim.Message) {
	if m.before != nil && !m.before(&msg) {
		return
	}
	m.Process.Receive(net, msg)
	m.tamper()
}

func (m *mutant) Timeout(net *sim.Port, timer int) {
	m.Process.Timeout(net, timer)
	m.tamper()
}

func (m *mutant) Suspect(net *sim.Port, peer int) {
	if s, listens := m.Process.(sim.Suspecter); listens {
		s.Suspect(net, peer)
		m.tamper()
	}
}

func set(field string, value any) func(reflect.Value) {
	return func(fields reflect.Value) {
		if f := fields.FieldByName(field); f.IsValid() {
			f.Set(reflect.ValueOf(value).Convert(f.Type()))
		}
	}
}

// TestMutants: a deliberate fault in each algorithm is detected by safety,
// liveness, or the book's count.
func TestMutants(t *testing.T) {
	deaf := func(kind sim.Kind) func(*sim.Message) bool {
		return func(m *sim.Message) bool { return m.Kind != kind }
	}
	for _, c := range []struct {
		fault  string
		o      lab.Options
		mutant mutant
	}{
		{"forgets the initiators that it has seen", lab.Options{Algorithm: "ring", Initiators: "all"},
			mutant{after: set("Initiator", sim.NoProcess)}},
		{"passes lower ids on unchanged", lab.Options{Algorithm: "ring-naive"},
			mutant{before: func(m *sim.Message) bool { m.ID = max(m.ID, 3); return true }}},
		{"forgets that it takes part", lab.Options{Algorithm: "chang-roberts", Initiators: "all", Order: "worst"},
			mutant{after: set("Participant", false)}},
		{"does not separate messages from before a crash", lab.Options{Algorithm: "chang-roberts", Crash: []string{"4@after-election"}, Detector: "perfect"},
			mutant{after: set("Era", 0)}},
		{"swallows nothing", lab.Options{Algorithm: "lcr"}, mutant{after: set("Candidate", false)}},
		{"counts one reply as two", lab.Options{Algorithm: "hs", N: 16, Order: "worst"}, mutant{after: set("Replies", 1)}},
		{"uses its index", lab.Options{Algorithm: "anonymous", N: 3},
			mutant{before: func(m *sim.Message) bool { m.ID = (m.ID + b2i(m.To == 0)) % 4; return true }}},
		{"takes an id that others drew for its own", lab.Options{Algorithm: "itai-rodeh", N: 3},
			mutant{before: func(m *sim.Message) bool { m.By = 1; return true }}},
		{"ignores the others", lab.Options{Algorithm: "sync-ring"}, mutant{before: deaf(0)}},
		{"agrees with lower ids", lab.Options{Algorithm: "multicast"},
			mutant{before: func(m *sim.Message) bool { m.ID += 5 * b2i(m.Kind == 0); return true }}},
		{"counts one agree as all", lab.Options{Algorithm: "multicast", Initiators: "3"},
			mutant{after: set("Agreed", []uint64{1<<5 - 1})}},
		{"starts no election of its own", lab.Options{Algorithm: "multicast"}, mutant{after: set("Stage", 1)}},
		{"ignores disagree", lab.Options{Algorithm: "multicast-timeout"}, mutant{before: deaf(1)}},
		{"waits for all to agree", lab.Options{Algorithm: "multicast-timeout", Crash: []string{"4@start"}},
			mutant{after: set("Form", 0)}},
		{"ignores disagree", lab.Options{Algorithm: "multicast-disagree"}, mutant{before: deaf(1)}},
		{"forgets that its election runs", lab.Options{Algorithm: "multicast-disagree"}, mutant{after: set("Stage", 0)}},
		{"ignores OK", lab.Options{Algorithm: "bully"}, mutant{before: deaf(1)}},
		{"gives its ACK twice", lab.Options{Algorithm: "zookeeper", N: 4, Initiators: "2,3"}, mutant{after: set("Epoch", 0)}},
		{"ignores commit", lab.Options{Algorithm: "zookeeper-herd"}, mutant{before: deaf(5)}},
		{"gives its vote twice", lab.Options{Algorithm: "chubby", Initiators: "0,1", Drift: 0.01}, mutant{after: set("Until", 0)}},
		{"forgets that a process is inside", lab.Options{Algorithm: "central"}, mutant{after: set("Held", false)}},
		{"makes a token", lab.Options{Algorithm: "token-ring"}, mutant{after: set("Begins", true)}},
		{"dates its own request later than any", lab.Options{Algorithm: "ricart-agrawala"}, mutant{after: set("Asked", 1000)}},
		{"gives its vote twice", lab.Options{Algorithm: "maekawa", N: 6}, mutant{after: set("Voted", false)}},
		{"gives its vote twice", lab.Options{Algorithm: "maekawa-deadlock-free", N: 6}, mutant{after: set("Voted", false)}},
		{"ignores failed", lab.Options{Algorithm: "maekawa-deadlock-free", N: 6}, mutant{before: deaf(4)}},
		{"forgets the holder", lab.Options{Algorithm: "stout"}, mutant{after: set("Holder", sim.NoProcess)}},
	} {
		t.Run(fmt.Sprintf("%s/%s", c.o.Algorithm, c.fault), func(t *testing.T) {
			if c.o.N == 0 {
				c.o.N = 5
			}
			found, sound := false, true
			for c.o.Seed = range 10 {
				found = found || bad(t, c.o, &c.mutant)
				sound = sound && !bad(t, c.o, nil)
			}
			if !found {
				t.Error("the fault was not found")
			}
			if !sound && c.o.Algorithm != "maekawa" {
				t.Error("without the fault something is wrong as well")
			}
		})
	}
}

// bad reports whether a run breaks anything, with the fault in all processes.
func bad(t *testing.T, o lab.Options, fault *mutant) bool {
	t.Helper()
	p, err := lab.Prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	if fault != nil {
		sound := p.Config.New
		p.Config.New = func(id int) sim.Process {
			m := *fault
			m.Process = sound(id)
			if o.Algorithm == "token-ring" {
				m.tamper() // before it starts
			}
			return &m
		}
	}
	r := p.Run()
	if o.Algorithm == "anonymous" { // it elects no process even without the fault; the fault shows as unequal states
		return len(r.Announced) > 0 && len(r.Announced) < r.N
	}
	if o.Algorithm == "maekawa" { // it deadlocks even without the fault: only safety counts
		return !r.Safety
	}
	tooMany := false
	for k, won := range winners(r) {
		tooMany = tooMany || won > o.N/(1<<k+1)
	}
	return !r.Good() || r.Within != nil && !*r.Within || tooMany
}

func winners(r *lab.Result) []int {
	if r.ElectionResult == nil {
		return nil
	}
	return r.WinnersPerPhase
}
