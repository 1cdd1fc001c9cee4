package load

import (
	"fmt"
	"io"
	"slices"
	"strconv"
)

// WritePlot writes throughput and latency as an SVG: against the number of
// sessions, or against the rate asked for where loads were open loops. It is an
// error if no row has a
func (r *Report) WritePlot(w io.Writer) error {
	open := slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Loop != nil && row.Offered > 0 })
	axis := "sessions"
	if open {
		axis = "operations asked for, per second"
	}
	throughput := panel{title: "Throughput, operations per second", axis: axis}
	latency := panel{title: "Latency, ms (line: median, dashes: p99)", axis: axis}
	for _, row := range r.Rows {
		if row.Loop == nil || open != (row.Offered > 0) {
			continue
		}
		name := row.Work + " (" + row.Via + ")"
		x := float64(row.Sessions)
		if open {
			name += fmt.Sprintf(", %d sessions", row.Sessions)
			x = row.Offered
		}
		throughput.add(name, false, point{x, row.Loop.Rate})
		latency.add(name, false, point{x, row.Loop.P50})
		latency.add(name, true, point{x, row.Loop.P99})
	}
	if len(throughput.lines) == 0 {
		return fmt.Errorf("there is nothing to plot: none of the works has a throughput")
	}
	return drawPanels(w, []*panel{&throughput, &latency})
}

// seriesName is what a legend shows of a line.
func seriesName(l *line) string {
	if len(l.points) == 1 {
		return l.name + " at " + strconv.FormatFloat(l.points[0].x, 'f', -1, 64)
	}
	return l.name
}
