package load

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteTable writes the rows for people: one table per kind of work, in the
// order of the rows. Figures are medians of the runs; ± is half of the
// difference between the smallest and the largest, in percent of the median.
func (r *Report) WriteTable(w io.Writer) error {
	var loads, idles, failovers, overloads, fanouts table
	loads.head("work", "via", "n", "ops/s", "±%", "p50 ms", "p99 ms", "p99.9 ms", "max ms",
		"cell CPU", "master CPU", "bench CPU", "RSS MiB", "notes")
	idles.head("work", "via", "n", "ttl s", "master CPU %", "cell CPU %", "KiB/session", "RSS MiB", "notes")
	failovers.head("work", "via", "kills", "median ms", "p90 ms", "max ms", "gaps ms")
	overloads.head("work", "via", "n", "s", "calm p50", "p99", "under p50", "p99 ms", "max ms", "RSS MiB", "most MiB", "elections", "lapses", "notes")
	fanouts.head("work", "via", "watchers", "last event ms", "p99 ms", "max ms", "with others /s", "ms", "p99 ms",
		"others/s unwatched", "watched", "of that", "elections", "lapses", "notes")
	for _, row := range r.Rows {
		name, via := row.Work, row.Via
		switch {
		case row.Loop != nil:
			loads.add(append([]string{name, via, row.sessions()}, row.Loop.cells(row.Offered)...)...)
		case row.Idle != nil:
			idles.add(append([]string{name, via, row.sessions()}, row.Idle.cells()...)...)
		case row.Failover != nil:
			failovers.add(append([]string{name, via}, row.Failover.cells()...)...)
		case row.Overload != nil:
			overloads.add(append([]string{name, via, row.sessions()}, row.Overload.cells()...)...)
		case row.Fanout != nil:
			fanouts.add(append([]string{name, via, row.sessions()}, row.Fanout.cells()...)...)
		}
	}
	var out strings.Builder
	loads.write(&out, "CPU: milliseconds per 1000 operations (cell: all replicas; bench: this program). RSS: the master's.")
	idles.write(&out, "CPU: percent of one core.")
	failovers.write(&out, "Gap: from the last success before the kill to the first after it.")
	overloads.write(&out, "Latencies: another client that acquires and releases its own lock, before and under the load. RSS: the master's.")
	fanouts.write(&out, "Last event: from the call of a write until the last watcher has the event; alone, and while 16 others write their own files.")
	_, err := io.WriteString(w, out.String())
	return err
}

func (r *Row) sessions() string { return strconv.Itoa(r.Sessions) }

func (l *Loop) cells(offered float64) []string {
	return []string{
		figure(l.Rate.Median), percentOff(l.Rate),
		figure(l.P50.Median), figure(l.P99.Median), figure(l.P999.Median), figure(l.Max.Max),
		figure(l.CellCPU.Median), figure(l.MasterCPU.Median), figure(l.OwnCPU.Median), figure(l.MasterRSS.Max),
		l.notes(offered),
	}
}

// notes returns remarks that help to interpret the figures.
func (l *Loop) notes(offered float64) string {
	var notes []string
	if offered > 0 {
		notes = append(notes, fmt.Sprintf("open loop at %s/s", figure(offered)))
	}
	if l.Tries.Median > 0 {
		notes = append(notes, figure(l.Tries.Median)+" tries each")
	}
	if l.OfPlain.Median > 0 {
		notes = append(notes, fmt.Sprintf("%s of plain (%s–%s)", figure(l.OfPlain.Median), figure(l.OfPlain.Min), figure(l.OfPlain.Max)))
	}
	if l.Share != nil {
		notes = append(notes, fmt.Sprintf("each %d..%d", l.Share.Least, l.Share.Most))
	}
	if l.Elections > 0 {
		notes = append(notes, fmt.Sprintf("%d elections", l.Elections))
	}
	if l.Missed > 0 {
		notes = append(notes, fmt.Sprintf("%d missed", l.Missed))
	}
	if l.Errors > 0 {
		notes = append(notes, fmt.Sprintf("%d errors: %s", l.Errors, l.FirstError))
	}
	return strings.Join(notes, ", ")
}

func (i *Idle) cells() []string {
	var notes []string
	if i.Clients > 0 {
		notes = append(notes, fmt.Sprintf("%d clients", i.Clients))
	}
	if i.Expired > 0 {
		notes = append(notes, fmt.Sprintf("%d expired", i.Expired))
	}
	return []string{
		figure(i.TTL), figure(i.MasterPercent.Median), figure(i.CellPercent.Median),
		figure(i.KiBPerSession), figure(i.MasterRSS), strings.Join(notes, ", "),
	}
}

func (f *Failover) cells() []string {
	gaps := make([]string, len(f.Gaps))
	for i, g := range f.Gaps {
		gaps[i] = strconv.FormatFloat(g, 'f', 0, 64)
	}
	return []string{
		strconv.Itoa(len(f.Gaps)), figure(f.Median), figure(f.P90), figure(f.Max), strings.Join(gaps, " "),
	}
}

func (o *Overload) cells() []string {
	notes := o.Notes
	if o.OtherErrors > 0 {
		notes = append(notes, fmt.Sprintf("%d errors of the other client: %s", o.OtherErrors, o.OtherError))
	}
	return []string{
		figure(o.Seconds), figure(o.Calm.P50), figure(o.Calm.P99), figure(o.Under.P50), figure(o.Under.P99), figure(o.Under.Max),
		figure(o.RSSBefore), figure(o.RSSMost), strconv.FormatUint(o.Elections, 10), strconv.Itoa(o.Lapses), strings.Join(notes, "; "),
	}
}

func (f *Fanout) cells() []string {
	share := "–"
	if f.Unwatched.Rate.Median > 0 {
		share = figure(f.Watched.Rate.Median / f.Unwatched.Rate.Median)
	}
	var notes []string
	elections := uint64(0)
	for _, l := range []*Loop{f.Alone, f.Under, f.Unwatched, f.Watched} {
		elections += l.Elections
		if l.Errors > 0 {
			notes = append(notes, fmt.Sprintf("%d errors: %s", l.Errors, l.FirstError))
		}
	}
	return []string{
		figure(f.Alone.P50.Median), figure(f.Alone.P99.Median), figure(f.Alone.Max.Max),
		figure(f.Under.Rate.Median), figure(f.Under.P50.Median), figure(f.Under.P99.Median),
		figure(f.Unwatched.Rate.Median), figure(f.Watched.Rate.Median), share,
		strconv.FormatUint(elections, 10), strconv.Itoa(f.Lapses), strings.Join(notes, "; "),
	}
}

// figure writes about three significant figures, without exponents. It writes a
// dash for an unmeasured figure, such as the CPU time of a cell with processes
// out of reach.
func figure(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func percentOff(s Spread) string {
	if s.Median == 0 || s.Min == s.Max {
		return "–"
	}
	return strconv.FormatFloat(100*(s.Max-s.Min)/2/s.Median, 'f', 1, 64)
}

// table aligns columns: the first two and the last to the left, numbers to the
// right.
type table struct {
	rows [][]string // the first is the head
}

func (t *table) head(cells ...string) { t.rows = append(t.rows, cells) }
func (t *table) add(cells ...string)  { t.rows = append(t.rows, cells) }

// write writes the table and its legend, or no output without rows.
func (t *table) write(out *strings.Builder, legend string) {
	if len(t.rows) < 2 {
		return
	}
	if out.Len() > 0 {
		out.WriteByte('\n')
	}
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < 2 || i == len(row)-1 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
			line.WriteString("  ")
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	out.WriteString(legend + "\n")
}
