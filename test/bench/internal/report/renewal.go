package report

import (
	"fmt"
	"strconv"
)

// Renewal is what clients of a cell notice while an operator does something.
type Renewal struct {
	What    string    `json:"what"`
	Seconds float64   `json:"seconds"` // that it took
	Under   Latencies `json:"under"`   // of the clients' operations
	// Gap is the longest time in which no client was served, in milliseconds.
	Gap     float64 `json:"gap_ms"`
	Masters uint64  `json:"masters"` // changes of master, asked for or not
	Lost    int     `json:"lost"`    // sessions that have expired, of all so far
	// Errors counts the operations that failed, of which Error is the last.
	Errors int    `json:"errors"`
	Error  string `json:"error,omitempty"`
}

func (r *Renewal) cells() []string {
	note := ""
	if r.Errors > 0 {
		note = fmt.Sprintf("%d errors: %s", r.Errors, r.Error)
	}
	return []string{
		figure(r.Seconds), figure(r.Under.P50), figure(r.Under.P99), figure(r.Under.Max), figure(r.Gap),
		strconv.FormatUint(r.Masters, 10), strconv.Itoa(r.Lost), note,
	}
}
