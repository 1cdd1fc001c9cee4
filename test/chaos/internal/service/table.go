package service

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Kinds of time that are not the name of one kind of fault.
const (
	Calm       = "no fault"
	Several    = "several kinds"
	NoMajority = "no healthy majority"
)

// Row is how long grants took during one kind of fault and its Recovery.
type Row struct {
	Fault     string
	Probes    int
	P99, Most time.Duration
}

// Rows are those of all kinds, in the order of their names.
func (r *Record) Rows() (rows []Row) {
	took := map[string][]time.Duration{}
	for _, p := range r.Probes {
		kind := r.kind(p)
		took[kind] = append(took[kind], p.Until-p.From)
	}
	for _, kind := range slices.Sorted(maps.Keys(took)) {
		all := took[kind]
		slices.Sort(all)
		rows = append(rows, Row{kind, len(all), all[(len(all)*99+99)/100-1], all[len(all)-1]})
	}
	return rows
}

// kind is that of the faults under way during a probe.
func (r *Record) kind(p Probe) string {
	s, kind := Span{p.From, p.Until}, Calm
	if !r.healthy(Span{p.From, min(p.Until, p.From+r.Within)}) {
		return NoMajority
	}
	for _, h := range r.Harms {
		switch {
		case !h.span().overlaps(s) || h.Fault == kind:
		case kind == Calm:
			kind = h.Fault
		default:
			return Several
		}
	}
	return kind
}

// Write prints the rows and the verdict, with tabs between columns.
func (r *Record) Write(w io.Writer) {
	v := r.Judge()
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }
	fmt.Fprintf(w, "grants\t%d probes; %d took longer than %v: %d without a healthy majority, %d excused (this machine was late %d times), %d lost sessions\n",
		len(r.Probes), v.Late, r.Within, v.Impaired, v.Excused, len(r.Late), len(r.Losses))
	for _, row := range r.Rows() {
		fmt.Fprintf(w, "  %s\tworst %s s, 99 %% within %s s, of %d\n", row.Fault, seconds(row.Most), seconds(row.P99), row.Probes)
	}
}
