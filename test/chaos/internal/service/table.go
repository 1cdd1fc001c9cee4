package service

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Kinds of intervals other than one kind of fault.
const (
	Calm       = "no fault"
	Several    = "several kinds"
	NoMajority = "no healthy majority"
)

// Row shows how long grants took during one kind of fault and its Recovery.
type Row struct {
	Fault     string
	Probes    int
	P99, Most time.Duration
}

// Rows returns the rows of all kinds, sorted by name.
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

// kind returns the kind of the faults under way during a probe.
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
	fmt.Fprintf(w, "grants\t%d probes; %d took longer than %v: %d of them without a healthy majority, %d excused (this machine was late %d times); %d sessions lost\n",
		len(r.Probes), v.Late, r.Within, v.Impaired, v.Excused, len(r.Late), len(r.Losses))
	for _, row := range r.Rows() {
		fmt.Fprintf(w, "  %s\tworst %s s, 99 %% within %s s, of %d\n", row.Fault, seconds(row.Most), seconds(row.P99), row.Probes)
	}
}
