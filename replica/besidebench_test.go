package replica

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/state"
)

// manySessions returns a state with many sessions.
func manySessions(n int) *state.State {
	s, _ := state.New().Apply(1, 1, state.Batch{LeaseMS: 1000, Commands: []state.Command{{Operation: &state.OpenOffice{Term: 1, Master: "r1"}}}})
	many := state.Batch{Epoch: 1, LeaseMS: 1000}
	for i := range n {
		many.Commands = append(many.Commands, open(fmt.Sprintf("%032d", i)))
	}
	s, _ = s.Apply(2, 1, many)
	return s
}

// BenchmarkStoreBeside measures how long an entry takes to the disk and into a
// state of many sessions, at the median and the 99th percentile: alone, and
// while snapshots of that state are written, or sums made, without a pause in
// between.
func BenchmarkStoreBeside(b *testing.B) {
	s := manySessions(100_000)
	works := map[string]func(*testing.B, raft.SnapshotStore, uint64){
		"none":      nil,
		"snapshots": func(b *testing.B, files raft.SnapshotStore, n uint64) { writeSnapshot(b, files, n, s) },
		"sums":      func(*testing.B, raft.SnapshotStore, uint64) { throttledSum(s) },
	}
	for _, name := range []string{"none", "snapshots", "sums"} {
		b.Run(name, func(b *testing.B) { benchmarkStoreBeside(b, s, works[name]) })
	}
}

func benchmarkStoreBeside(b *testing.B, s *state.State, work func(b *testing.B, files raft.SnapshotStore, n uint64)) {
	dir := b.TempDir()
	d, err := datadir.Open(dir, "bench", "r1")
	if err != nil {
		b.Fatal(err)
	}
	stores, err := d.Open(true, zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	var stop atomic.Bool
	var working sync.WaitGroup
	var works uint64
	if work != nil {
		working.Go(func() {
			for ; !stop.Load(); works++ {
				work(b, stores.Snapshots, works+1)
			}
		})
	}
	var took []time.Duration
	for i := uint64(3); b.Loop(); i++ {
		began := time.Now()
		if err := stores.Logs.StoreLog(&raft.Log{Index: i, Term: 1, Data: make([]byte, 128)}); err != nil {
			b.Fatal(err)
		}
		s, _ = s.Apply(i, 1, state.Batch{Epoch: 1, LeaseMS: 1000, Commands: []state.Command{
			{Operation: &state.Acquire{Session: fmt.Sprintf("%032d", i%100_000), Path: "/bench", Mode: state.Exclusive}}}})
		took = append(took, time.Since(began))
	}
	stop.Store(true)
	working.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(max(works, 1)), "ms/work")
	if err := stores.Close(); err != nil {
		b.Fatal(err)
	}
}

func writeSnapshot(b *testing.B, files raft.SnapshotStore, n uint64, s *state.State) {
	_, wire := raft.NewInmemTransport("")
	sink, err := files.Create(raft.SnapshotVersionMax, n, 1, raft.Configuration{}, 1, wire)
	if err == nil {
		err = snapshot{s}.Persist(sink)
	}
	if err != nil {
		b.Error(err)
	}
}
