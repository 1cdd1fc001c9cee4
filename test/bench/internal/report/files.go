package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/test/bench/internal/load"
)

// Fanout is how long a write takes until the last of many watchers is told, and
// what that does to others who write. Its operations are rounds: a write, and
// the wait for the last watcher.
type Fanout struct {
	Alone *Load `json:"alone"` // rounds one after the other
	Under *Load `json:"under"` // rounds while the others write
	// The others' writes before anybody watched, and during those rounds.
	Unwatched *Load `json:"unwatched"`
	Watched   *Load `json:"watched"`
	Lapses    int   `json:"lapses"` // of the master's lease
}

func (f *Fanout) cells() []string {
	share := "–"
	if f.Unwatched.Rate.Median > 0 {
		share = figure(f.Watched.Rate.Median / f.Unwatched.Rate.Median)
	}
	var notes []string
	elections := uint64(0)
	for _, l := range []*Load{f.Alone, f.Under, f.Unwatched, f.Watched} {
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

// Farewell is how long the ephemeral files of a process outlive it.
type Farewell struct {
	TTL      float64     `json:"ttl_s"`
	Sessions int         `json:"sessions"`
	Gone     load.Spread `json:"gone_s"` // all of them, after the process died
	// Parted counts the sessions whose files did not end in one change.
	Parted int `json:"parted"`
}

func (f *Farewell) cells() []string {
	note := ""
	if f.Parted > 0 {
		note = fmt.Sprintf("of %d sessions not in one change", f.Parted)
	}
	return []string{
		strconv.Itoa(f.Sessions), figure(f.TTL), figure(f.Gone.Median), figure(f.Gone.Min), figure(f.Gone.Max), note,
	}
}

// Filled is what many files take, and what they do to a single writer, beside an
// empty cell that has had as many writes.
type Filled struct {
	ContentMiB float64 `json:"content_mib"`
	// Resident memory of the replica that has most, in MiB: its own, and the pages
	// of files that are mapped, which the system can take back.
	Own         Pair    `json:"own_mib"`
	OwnMost     float64 `json:"own_most_mib"` // on the full cell, while snapshots are written
	Mapped      Pair    `json:"mapped_mib"`
	FillSeconds float64 `json:"fill_s"`
	Empty       *Load   `json:"empty"` // the writer's on the empty cell
	Full        *Load   `json:"full"`  // and on the full one
	// What the writer notices of snapshots.
	Snapshots       int64     `json:"snapshots"`
	SnapshotSeconds float64   `json:"snapshots_s"`
	Calm            Latencies `json:"calm"` // with no snapshot going on
	During          Latencies `json:"during"`
}

// Pair is a figure of the two cells.
type Pair struct {
	Empty float64 `json:"empty"`
	Full  float64 `json:"full"`
}

func (f *Filled) cells() []string {
	ratio := "–"
	if f.Empty.P50.Median > 0 {
		ratio = figure(f.Full.P50.Median / f.Empty.P50.Median)
	}
	var notes []string
	for _, l := range []*Load{f.Empty, f.Full} {
		if l.Errors > 0 {
			notes = append(notes, fmt.Sprintf("%d errors: %s", l.Errors, l.FirstError))
		}
	}
	if f.Snapshots == 0 {
		notes = append(notes, "no snapshot was seen")
	}
	return []string{
		figure(f.ContentMiB), figure(f.Own.Empty), figure(f.Own.Full), figure(f.OwnMost), figure((f.Own.Full - f.Own.Empty) / f.ContentMiB),
		figure(f.Mapped.Empty), figure(f.Mapped.Full), figure(f.FillSeconds),
		figure(f.Empty.Rate.Median), figure(f.Full.Rate.Median), figure(f.Empty.P50.Median), figure(f.Full.P50.Median), ratio,
		figure(f.Empty.P99.Median), figure(f.Full.P99.Median), strconv.FormatInt(f.Snapshots, 10), figure(f.SnapshotSeconds),
		figure(f.Calm.P99), figure(f.During.P99), figure(f.Calm.Max), figure(f.During.Max), strings.Join(notes, "; "),
	}
}
