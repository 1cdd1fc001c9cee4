package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/state"
)

// BenchmarkApplyBesideSums measures the cost of applying an entry to a state of
// many sessions: without sums, and with sums as often as checksumShare allows.
func BenchmarkApplyBesideSums(b *testing.B) {
	const sessions = 100_000
	for name, every := range map[string]time.Duration{"none": time.Hour, "sums": time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			began := time.Now()
			f := &fsm{waitCommitted: func(_, _ uint64) error { return nil }, clock: func() time.Duration { return time.Since(began) }, fail: func(err error) { b.Fatal(err) }}
			f.sums = newChecksums(f.clock, func(own, told Checksum) { b.Errorf("own %v, told %v", own, told) })
			f.sums.every = every
			f.current.Store(state.New())
			f.publisher = publisher{leads: func(uint64) bool { return true }, events: events.New(65536, 64<<20, 0)}
			at := uint64(0)
			apply := func(batch state.Batch) {
				at++
				data, err := batch.Encode()
				if err != nil {
					b.Fatal(err)
				}
				f.Apply(&raft.Log{Index: at, Term: 1, Data: data})
			}
			apply(state.Batch{LeaseMS: 1000, Commands: []state.Command{{Operation: &state.OpenOffice{Term: 1, Master: "r1"}}}})
			for n := 0; n < sessions; {
				many := state.Batch{Epoch: 1, LeaseMS: 1000}
				for range 1000 {
					many.Commands = append(many.Commands, open(fmt.Sprintf("%032d", n)))
					n++
				}
				apply(many)
			}
			i := 0
			for b.Loop() {
				i++
				commands := []state.Command{{Operation: &state.Acquire{Session: fmt.Sprintf("%032d", i%sessions), Path: "/bench", Mode: state.Exclusive}}}
				if due, ok := f.sums.due(); ok {
					commands = append(commands, due)
				}
				apply(state.Batch{Epoch: 1, LeaseMS: 1000, Commands: commands})
			}
			b.StopTimer()
			f.sums.work.Wait()
			b.ReportMetric(f.sums.took.Seconds()*1000, "ms/sum")
		})
	}
}
