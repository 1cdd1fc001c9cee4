// Package draw shows a run: as a space–time diagram, in SVG or as text, and as
// a page that plays it.
package draw

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

// Room is the number of records in a drawing; later records are left out.
const Room = 4000

// diagram is a run as lines of processes, with arrows between them and marks on
// them.
type diagram struct {
	title  string
	rows   []row
	row    map[int]int // by process
	arrows []arrow
	marks  []mark
	spans  []span
	end    sim.Time
	cut    bool // the trace was too short for the whole run
}

type row struct {
	id    int
	label string
	dead  sim.Time // when it crashed, or −1
}

type arrow struct {
	from, to int // rows
	at, till sim.Time
	kind     int
	text     string
	lost     bool
	beside   int // earlier arrows with the same ends
}

type mark struct {
	row  int
	at   sim.Time
	what sim.Action
	text string
}

// span is an interval in the critical section, or in office.
type span struct {
	row      int
	at, till sim.Time
}

// layout makes a diagram of a run. Rings are drawn in ring order, so that
// messages go to the next line.
func layout(r *lab.Result) *diagram {
	p, out := r.Plan, r.Outcome
	d := &diagram{title: Title(r), row: map[int]int{}, end: 1, cut: out.Truncated}
	order := p.Case.Ring
	for i := range p.Algorithm.Extra {
		order = append(order[:len(order):len(order)], p.Case.N+i)
	}
	for i, id := range order {
		d.row[id] = i
		label := fmt.Sprint(id)
		if id >= p.Case.N {
			label = "service"
		}
		d.rows = append(d.rows, row{id: id, label: label, dead: -1})
	}
	kinds := map[string]int{}
	for i, k := range p.Algorithm.Kinds {
		kinds[k.Name] = i
	}
	sent := map[int]sim.Record{}
	drawn := map[arrow]int{} // by their ends
	open := map[int]sim.Time{}
	for _, rec := range out.Trace {
		d.end = max(d.end, rec.At)
		at := d.row[rec.Process]
		switch rec.What {
		case sim.Sent:
			sent[rec.Message] = rec
		case sim.Received, sim.Dropped:
			s, known := sent[rec.Message]
			if !known {
				continue
			}
			ends := arrow{from: d.row[s.Process], to: at, at: s.At, till: rec.At}
			a := ends
			a.kind, a.text, a.lost, a.beside = kinds[s.Kind], s.Text, rec.What == sim.Dropped, drawn[ends]
			drawn[ends]++
			d.arrows = append(d.arrows, a)
		case sim.Crashed:
			d.rows[at].dead = rec.At
			d.marks = append(d.marks, mark{at, rec.At, rec.What, rec.Text})
		case sim.Restarted:
			d.rows[at].dead = -1
			d.marks = append(d.marks, mark{at, rec.At, rec.What, rec.Text})
		case sim.Enter:
			open[at] = rec.At
			d.marks = append(d.marks, mark{at, rec.At, rec.What, rec.Text})
		case sim.Leave:
			d.spans = append(d.spans, span{at, open[at], rec.At})
			delete(open, at)
		case sim.Leads:
			var until sim.Time
			fmt.Sscanf(rec.Text, "in office until %d", &until)
			d.spans = append(d.spans, span{at, rec.At, until})
		case sim.Elected, sim.Suspected, sim.TimedOut, sim.Cut, sim.Want:
			d.marks = append(d.marks, mark{at, rec.At, rec.What, rec.Text})
		}
	}
	for at, since := range open {
		d.spans = append(d.spans, span{at, since, d.end})
	}
	for i := range d.spans {
		s := &d.spans[i]
		s.till = min(s.till, d.end)
		if dead := d.rows[s.row].dead; dead >= s.at {
			s.till = min(s.till, dead)
		}
	}
	return d
}

// Title identifies the run.
func Title(r *lab.Result) string {
	text := fmt.Sprintf("%s, n = %d", r.Algorithm, r.N)
	o := r.Plan.Options
	add := func(flag, value string) {
		if value != "" {
			text += fmt.Sprintf(" --%s %s", flag, value)
		}
	}
	add("initiators", o.Initiators)
	add("order", o.Order)
	add("entries", o.Entries)
	if o.Latency != "1" {
		add("latency", o.Latency)
	}
	for _, c := range o.Crash {
		add("crash", c)
	}
	for _, c := range o.Cut {
		add("cut", c)
	}
	add("detector", o.Detector)
	if r.Seed != 0 {
		add("seed", fmt.Sprint(r.Seed))
	}
	return text
}

// Verdict summarizes the result of the run in one line.
func Verdict(r *lab.Result) string {
	if r.Good() {
		return fmt.Sprintf("%d messages, turnaround %d. Safety and liveness hold.", r.Messages.Total, r.Turnaround)
	}
	what := "Safety is broken"
	if r.Safety {
		what = "Liveness is broken"
	}
	return fmt.Sprintf("%s, %s.", what, r.Violation)
}
