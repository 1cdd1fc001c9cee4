package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stoutlock/stout/test/chaos/internal/watch"
	"github.com/stoutlock/stout/test/history"
)

// summary prints the faults and the results of the checks.
func (t *trial) summary(w io.Writer) {
	result := "no problem was found"
	if n := len(t.problems); n > 0 {
		result = fmt.Sprintf("%d PROBLEMS", n)
	}
	fmt.Fprintf(w, "\n%d replicas, seed %d, %v: %s\n", t.size, t.seed, t.took.Round(time.Second), result)
	counts := t.nemesis.Counts()
	var faults []string
	total := 0
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		faults = append(faults, fmt.Sprintf("%s %d", name, counts[name]))
		total += counts[name]
	}
	accepted, refused := t.resource.Writes()
	service := watch.Serve(t.record)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintf(table, "faults\t%d: %s\n", total, strings.Join(faults, ", "))
	fmt.Fprintf(table, "service\t%d elections; longest time without service: %v, from second %.1f\n",
		service.Elections, service.Gap.Round(time.Millisecond), service.GapAt.Seconds())
	t.grants.Write(table)
	fmt.Fprintf(table, "holds of the SDK\t%d compared\n", t.holds.Len())
	fmt.Fprintf(table, "guarded resource\t%d writes accepted, %d from late holders refused\n", accepted, refused)
	fmt.Fprintf(table, "state sums\tcompared at %d log entries\n", t.sums.Compared())
	fmt.Fprintf(table, "events\t%s\n", t.watchers())
	if t.verdict != nil {
		fmt.Fprintf(table, "models\t%d steps on %d locks, %d groups of files and %d directories of keys; the longest check took %v\n",
			t.verdict.Steps, t.verdict.Paths, t.verdict.Groups, t.verdict.Keys, t.verdict.Longest.Round(time.Millisecond))
	}
	t.operations(table)
}

// watchers describes the events that the watchers received.
func (t *trial) watchers() string {
	upTo, missed := uint64(0), uint64(0)
	for _, w := range t.seen {
		upTo = max(upTo, w.UpTo)
		for _, s := range w.Missed {
			missed += s.UpTo - s.After
		}
	}
	return fmt.Sprintf("%d revisions sent to %d watchers; %d were compacted before a watcher asked for them", upTo, len(t.seen), missed)
}

// operations counts the requests by kind and outcome.
func (t *trial) operations(w io.Writer) {
	kinds := []history.Kind{history.Acquire, history.Release, history.Read, history.Sequencer, history.Open, history.Keepalive, history.Close,
		history.Write, history.Delete, history.Get, history.Transact, history.List, history.DeleteBelow, history.KeyRead, history.KeyChange}
	outcomes := []history.Outcome{history.Done, history.Queued, history.Refused, history.NotHeld, history.Nothing, history.Gone, history.NoEffect, history.Unknown, history.Wrong}
	counts := map[history.Kind]map[history.Outcome]int{}
	for i := range t.record {
		a := &t.record[i]
		if counts[a.Kind] == nil {
			counts[a.Kind] = map[history.Outcome]int{}
		}
		counts[a.Kind][a.Outcome]++
	}
	fmt.Fprintf(w, "requests\t%d\n", len(t.record))
	for _, kind := range kinds {
		var parts []string
		for _, o := range outcomes {
			if n := counts[kind][o]; n > 0 {
				parts = append(parts, fmt.Sprintf("%s %d", o, n))
			}
		}
		fmt.Fprintf(w, "  %s\t%s\n", kind, strings.Join(parts, ", "))
	}
}
