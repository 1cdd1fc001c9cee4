package lab_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

// TestMulticast pins the counts by kind of the three forms, with and without a
// failed leader.
func TestMulticast(t *testing.T) {
	for _, n := range []int{3, 4, 6, 9, 20} {
		for first := range n - 1 {
			for _, c := range []struct {
				algorithm string
				agree     int // this form sends Agree
				dead      int
			}{
				{"multicast", 1, 0},
				{"multicast-timeout", 1, 0}, {"multicast-timeout", 1, 1},
				{"multicast-disagree", 0, 0}, {"multicast-disagree", 0, 1},
			} {
				o := lab.Options{Algorithm: c.algorithm, N: n, Initiators: fmt.Sprint(first)}
				if c.dead > 0 {
					o.Crash = []string{fmt.Sprintf("%d@start", n-1)}
				}
				leader := n - 1 - c.dead
				began := leader - first + 1 // each process from the first on
				r := good(t, o)
				k := r.Messages.ByKind
				agrees := c.agree * (began*first + began*(began-1)/2)
				if k["election"] != began*(n-1) || k["disagree"] != began*(began-1)/2 || k["agree"] != agrees ||
					k["coordinator"] != n-1 || !slices.Equal(r.Announced, []int{leader}) {
					t.Errorf("%+v: %v, leaders %v", o, k, r.Announced)
				}
			}
		}
	}
}

// TestMulticastWaits: Agree from all elects at once. A silent process makes the
// initiator wait for the time-out, and so does a form without Agree.
func TestMulticastWaits(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		crash     []string
		time      sim.Time
	}{
		{"multicast", nil, 4},
		{"multicast-timeout", nil, 4},
		{"multicast-timeout", []string{"4@start"}, 1 + 18 + 1},
		{"multicast-disagree", nil, 1 + 18 + 1},
	} {
		if r := good(t, lab.Options{Algorithm: c.algorithm, N: 5, Bound: 9, Crash: c.crash}); r.VirtualTime != c.time {
			t.Errorf("%+v: it took %d", c, r.VirtualTime)
		}
	}
}

// TestMulticastFails: the effects of a failed process, a lost message and a
// late one on each form.
func TestMulticastFails(t *testing.T) {
	late := lab.Options{Latency: "1..20", Bound: 1}
	for _, c := range []struct {
		o                lab.Options
		agreement, other bool // safety and liveness hold in the first form, and in the others
	}{
		{lab.Options{Crash: []string{"4@start"}}, false, true},
		{lab.Options{Crash: []string{"2@start"}}, false, true},
		{lab.Options{Crash: []string{"4@after-disagree"}}, false, true},
		{lab.Options{Crash: []string{"4@coordinator"}}, false, false}, // all have given up, and wait
		{lab.Options{Crash: []string{"4@after-coordinator#4"}}, false, false},
		{lab.Options{Detector: "perfect", Crash: []string{"4@coordinator"}}, false, false}, // it does not listen
		{late, true, false},
	} {
		for _, name := range []string{"multicast", "multicast-timeout", "multicast-disagree"} {
			c.o.Algorithm, c.o.N, c.o.Seed = name, 5, 1
			want := c.other
			if name == "multicast" {
				want = c.agreement
			}
			if r := run(t, c.o); r.Good() != want {
				t.Errorf("%+v: %v, leaders %v", c.o, r.Violation, r.Announced)
			}
		}
	}
	// A lost message leaves the first form without a leader. In the others it
	// makes two leaders, for some seeds.
	for name, two := range map[string]bool{"multicast": false, "multicast-timeout": true, "multicast-disagree": true} {
		stuck, unsafe := 0, 0
		for seed := range uint64(40) {
			r := run(t, lab.Options{Algorithm: name, N: 5, Loss: 0.1, Seed: seed})
			stuck += b2i(!r.Liveness)
			unsafe += b2i(!r.Safety)
		}
		if stuck == 0 || (unsafe > 0) != two {
			t.Errorf("%s: of 40 runs that lose messages %d are stuck, %d unsafe", name, stuck, unsafe)
		}
	}
}

// TestBullyAsksLess compares bully with the third form of multicast, in the
// same runs: fewer questions give the same answers and the same leader.
func TestBullyAsksLess(t *testing.T) {
	for _, n := range []int{3, 6, 9, 20} {
		for first := range n - 2 { // n−2 knows that it is the highest, and asks no process
			o := lab.Options{Algorithm: "bully", N: n, Initiators: fmt.Sprint(first)}
			bully := good(t, o)
			o.Algorithm, o.Crash = "multicast-disagree", []string{fmt.Sprintf("%d@start", n-1)}
			all := good(t, o)
			began := n - 1 - first
			b, m := bully.Messages.ByKind, all.Messages.ByKind
			if b["ok"] != m["disagree"] || b["coordinator"] != m["coordinator"]-1 || *bully.Leader != *all.Leader ||
				b["election"] != began*(began+1)/2 || m["election"] != began*(n-1) || bully.Turnaround != all.Turnaround {
				t.Errorf("n = %d, from %d: bully %v, multicast %v", n, first, b, m)
			}
		}
	}
}

// TestAgreementNeverElectsTwo: if all must agree, no network makes two leaders.
// Only a crash of the leader breaks safety.
func TestAgreementNeverElectsTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := lab.Options{
			Algorithm: "multicast", N: rapid.IntRange(2, 7).Draw(t, "n"), Seed: rapid.Uint64Range(0, 1<<20).Draw(t, "seed"),
			Latency: rapid.SampledFrom([]string{"1", "1..20"}).Draw(t, "latency"), Bound: 1, Reorder: true,
			Loss: rapid.Float64Range(0, 0.2).Draw(t, "loss"), Duplicate: rapid.Float64Range(0, 0.5).Draw(t, "duplicate"),
		}
		o.Initiators = drawIDs(t, o.N)
		if o.N > 2 {
			o.Crash = []string{fmt.Sprintf("%d@any#%d", rapid.IntRange(0, o.N-2).Draw(t, "who"), rapid.IntRange(1, 8).Draw(t, "when"))}
		}
		if r := run(t, o); !r.Safety {
			t.Fatalf("%+v: %v", o, r.Violation)
		}
	})
}
