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
