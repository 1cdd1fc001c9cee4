package service

import (
	"strings"
	"testing"
	"time"
)

const s = time.Second

func TestJudge(t *testing.T) {
	slow := Probe{From: 10 * s, Until: 13 * s, Granted: true}
	one := func(id string, from, until time.Duration) Harm {
		return Harm{Fault: "hang", Replicas: []string{id}, From: from, Until: until}
	}
	cut := func(a, b string) Harm {
		return Harm{Fault: "cut", Links: [][2]string{{a, b}}, From: 9 * s, Until: 14 * s}
	}
	for _, test := range []struct {
		name    string
		harms   []Harm
		probe   Probe
		loss    []Loss
		late    []Span
		problem string // "": no problem
		verdict Verdict
	}{
		{name: "a grant in time", probe: Probe{From: 10 * s, Until: 12 * s, Granted: true}},
		{name: "no fault", probe: slow, problem: "granted after 3.000 s", verdict: Verdict{Late: 1}},
		{name: "given up", probe: Probe{From: 10 * s, Until: 40 * s, Err: "why"}, problem: "given up after 30.000 s (why)", verdict: Verdict{Late: 1}},
		{name: "a minority", harms: []Harm{one("r1", 9*s, 14*s)}, probe: slow, problem: "hang  from 9.000 to 14.000 s", verdict: Verdict{Late: 1}},
		{name: "one after the other", harms: []Harm{one("r1", 5*s, 9*s-1), one("r2", 11*s, 14*s)}, probe: slow, problem: "granted", verdict: Verdict{Late: 1}},
		{name: "one recovers yet", harms: []Harm{one("r1", 5*s, 9*s+1), one("r2", 11*s, 14*s)}, probe: slow, verdict: Verdict{Late: 1, Impaired: 1}},
		{name: "a majority", harms: []Harm{one("r1", 9*s, 14*s), one("r3", 9*s, 14*s)}, probe: slow, verdict: Verdict{Late: 1, Impaired: 1}},
		{name: "a majority, but after the bound", harms: []Harm{one("r1", 12*s, 14*s), one("r3", 12*s, 14*s)}, probe: slow, problem: "granted", verdict: Verdict{Late: 1}},
		{name: "a link", harms: []Harm{cut("r1", "r2")}, probe: slow, problem: "granted", verdict: Verdict{Late: 1}},
		{name: "two links", harms: []Harm{cut("r1", "r2"), cut("r3", "r1")}, probe: slow, problem: "granted", verdict: Verdict{Late: 1}},
		{name: "all links", harms: []Harm{cut("r1", "r2"), cut("r3", "r1"), cut("r2", "r3")}, probe: slow, verdict: Verdict{Late: 1, Impaired: 1}},
		{name: "a link and the third", harms: []Harm{cut("r1", "r2"), one("r3", 0, 14*s)}, probe: slow, verdict: Verdict{Late: 1, Impaired: 1}},
		{name: "a late machine", late: []Span{{11 * s, 12 * s}}, probe: slow, verdict: Verdict{Late: 1, Excused: 1}},
		{name: "late after the bound", late: []Span{{12 * s, 13 * s}}, probe: slow, problem: "granted", verdict: Verdict{Late: 1}},
		{name: "a lost session", loss: []Loss{{At: 30 * s, TTL: 12 * s, Err: "gone"}}, harms: []Harm{one("r1", 0, 40*s)}, problem: "was lost at 30.000 s (gone)"},
		{name: "lost without a majority", loss: []Loss{{At: 30 * s, TTL: 12 * s}}, harms: []Harm{one("r1", 0, 40*s), one("r2", 0, 17*s)}},
	} {
		r := Record{Replicas: []string{"r1", "r2", "r3"}, Within: 2 * s, Harms: test.harms, Probes: []Probe{test.probe}, Losses: test.loss, Late: test.late}
		v := r.Judge()
		if all := strings.Join(v.Problems, "\n"); (all == "") != (test.problem == "") || !strings.Contains(all, test.problem) {
			t.Errorf("%s: problems %q, want %q", test.name, all, test.problem)
		}
		if v.Late != test.verdict.Late || v.Impaired != test.verdict.Impaired || v.Excused != test.verdict.Excused {
			t.Errorf("%s: %+v, want %+v", test.name, v, test.verdict)
		}
	}
}

// TestRows: a probe belongs to the kind of fault that was under way, or over
// for less than Recovery.
func TestRows(t *testing.T) {
	r := Record{Within: 2 * s, Replicas: []string{"r1", "r2", "r3"}, Harms: []Harm{
		{Fault: "hang", From: 10 * s, Until: 20 * s}, {Fault: "hang", From: 15 * s, Until: 20 * s}, {Fault: "full", From: 40 * s, Until: 41 * s}, {Fault: "cut", From: 42 * s, Until: 43 * s},
		{Fault: "kill", Replicas: []string{"r1", "r2"}, From: 60 * s, Until: 61 * s},
	}}
	add := func(from, took time.Duration) { r.Probes = append(r.Probes, Probe{From: from, Until: from + took}) }
	for range 100 {
		add(17*s, s/10)
	}
	add(21*s, 3*s)
	add(30*s, s)
	add(42*s, s/2)
	add(59*s, 3*s)
	want := map[string]Row{"hang": {"hang", 101, s / 10, 3 * s}, Calm: {Calm, 1, s, s}, Several: {Several, 1, s / 2, s / 2}, NoMajority: {NoMajority, 1, 3 * s, 3 * s}}
	rows := r.Rows()
	if len(rows) != len(want) {
		t.Errorf("%d rows: %v", len(rows), rows)
	}
	for _, row := range rows {
		if row != want[row.Fault] {
			t.Errorf("%v, want %v", row, want[row.Fault])
		}
	}
}
