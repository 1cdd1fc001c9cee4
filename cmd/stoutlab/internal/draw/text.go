package draw

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

const (
	columnWidth = 5
	maxLines    = 400
)

// Text draws the run for a terminal: time goes down, each process is a column,
// each arriving message is a line with an arrow.
func Text(r *lab.Result) []byte {
	d := layout(r)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%s\n\n", d.title, Verdict(r))
	head := " time "
	for _, row := range d.rows {
		head += fmt.Sprintf("%-*s", columnWidth, abbreviate(row.label))
	}
	b.WriteString(strings.TrimRight(head, " ") + "\n")
	t := &textDrawing{d: d, alive: make([]bool, len(d.rows)), last: -1, b: &b}
	for i := range t.alive {
		t.alive[i] = true
	}
	sent := map[int]sim.Record{}
	for _, rec := range r.Outcome.Trace {
		if t.lines > maxLines {
			b.WriteString("   …  the rest is left out\n")
			break
		}
		if rec.What == sim.Sent {
			sent[rec.Message] = rec
		}
		t.record(rec, sent[rec.Message])
	}
	return b.Bytes()
}

func abbreviate(label string) string {
	if len(label) >= columnWidth {
		return label[:columnWidth-2] + "."
	}
	return label
}

type textDrawing struct {
	d     *diagram
	alive []bool
	last  sim.Time
	lines int
	b     *bytes.Buffer
}

var signs = map[sim.Action]struct{ sign, text string }{
	sim.Crashed:   {"╳", "crashes"},
	sim.Restarted: {"┃", "is back"},
	sim.Cut:       {"╪", "is cut off"},
	sim.TimedOut:  {"◷", "a time-out"},
	sim.Suspected: {"!", ""},
	sim.Elected:   {"★", ""},
	sim.Leads:     {"◆", ""},
	sim.Want:      {"?", "wants to enter"},
	sim.Enter:     {"▼", "enters"},
	sim.Leave:     {"▲", "leaves"},
}

// record adds the line of a record, if it has one.
func (t *textDrawing) record(rec, sent sim.Record) {
	at := t.d.row[rec.Process]
	switch rec.What {
	case sim.Received, sim.Dropped:
		from, text := t.d.row[rec.Peer], sent.Text
		if rec.What == sim.Dropped {
			text += ": " + rec.Text
		}
		if from == at {
			t.line(rec.At, at, at, "↺", text+" to itself")
		} else {
			t.line(rec.At, from, at, "", text)
		}
		return
	case sim.Crashed:
		t.alive[at] = false
	case sim.Restarted:
		t.alive[at] = true
	}
	s, has := signs[rec.What]
	if !has {
		return
	}
	text := s.text
	if rec.Text != "" {
		text = rec.Text
	}
	if rec.What == sim.Elected {
		text = belief(rec.Text)
	}
	t.line(rec.At, at, at, s.sign, fmt.Sprintf("%s: %s", t.d.rows[at].label, text))
}

// belief returns a process's belief, from "leader 4".
func belief(text string) string {
	if sign := crown(text); sign[0] == 'n' {
		return sign
	}
	return "believes in " + text
}

// line draws an arrow between two columns, or a sign in one.
func (t *textDrawing) line(at sim.Time, from, to int, sign, text string) {
	t.lines++
	cells := []rune(strings.Repeat(" ", columnWidth*len(t.d.rows)))
	for i, alive := range t.alive {
		cells[i*columnWidth] = '│'
		if !alive {
			cells[i*columnWidth] = '·'
		}
	}
	if from != to {
		low, high := min(from, to)*columnWidth, max(from, to)*columnWidth
		for i := low + 1; i < high; i++ {
			cells[i] = '─'
		}
		cells[from*columnWidth] = '├'
		cells[high-1] = '▶'
		if to < from {
			cells[from*columnWidth] = '┤'
			cells[high-1] = '─'
			cells[low+1] = '◀'
		}
	} else {
		cells[from*columnWidth] = []rune(sign)[0]
	}
	when := "     "
	if at != t.last {
		when, t.last = fmt.Sprintf("%5d", at), at
	}
	fmt.Fprintf(t.b, "%s %s %s\n", when, string(cells), text)
}
