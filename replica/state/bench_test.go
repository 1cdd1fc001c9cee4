package state_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/stoutlock/stout/replica/state"
)

func sessionID(i int) string { return fmt.Sprintf("%032x", uint64(i+1)*0x9e3779b97f4a7c15) }

const many = 100_000

// crowded returns a state with many sessions that hold one lock each.
var crowded = sync.OnceValue(func() *state.State {
	s := opened(panicker{}, many)
	var all []state.Command
	for i := range many {
		all = append(all, acquireOf(i, fmt.Sprintf("/held/%d", i)))
	}
	return appliedAll(s, all)
})

// queued returns a state with many sessions that wait for one lock.
var queued = sync.OnceValue(func() *state.State {
	s := opened(panicker{}, many)
	var all []state.Command
	for i := range many {
		all = append(all, acquireOf(i, "/wanted"))
	}
	return appliedAll(s, all)
})

// panicker takes the place of a test in functions that run only once.
type panicker struct{ testing.TB }

func (panicker) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func appliedAll(s *state.State, all []state.Command) *state.State {
	for part := range slices.Chunk(all, 1000) {
		s = applied(panicker{}, s, part...)
	}
	return s
}

func acquireOf(i int, path string) state.Command {
	return state.Command{Time: 1_700_000_000_000_000_000, Operation: &state.Acquire{Session: sessionID(i), Path: path,
		Mode: state.Exclusive, Wait: state.WhileConnected}}
}

func releaseOf(i int, path string) state.Command {
	return state.Command{Time: 1_700_000_000_000_000_000, Operation: &state.Release{Session: sessionID(i), Path: path}}
}

// cycle returns acquires of n free paths, and their releases.
func cycle(n int) (acquires, releases []state.Command) {
	for i := range n {
		path := fmt.Sprintf("/bench/%d", i)
		acquires, releases = append(acquires, acquireOf(i, path)), append(releases, releaseOf(i, path))
	}
	return acquires, releases
}

// BenchmarkCycle acquires and releases locks, in batches of the given size. An
// operation is one acquire with its release.
func BenchmarkCycle(b *testing.B) {
	starts := []struct {
		name  string
		start func() *state.State
	}{
		{"empty", func() *state.State { return opened(b, 128) }},
		{"held=100k", crowded},
		{"queued=100k", queued},
	}
	for _, st := range starts {
		for _, n := range []int{1, 128} {
			b.Run(fmt.Sprintf("%s/batch=%d", st.name, n), func(b *testing.B) {
				s := st.start()
				acquires, releases := cycle(n)
				b.ReportAllocs()
				b.ResetTimer()
				for done := 0; done < b.N; done += n {
					s = applied(b, s, acquires...)
					s = applied(b, s, releases...)
				}
			})
		}
	}
}

// BenchmarkHandOver releases a lock that many sessions wait for. The former holder
// queues again.
func BenchmarkHandOver(b *testing.B) {
	s := queued()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s = applied(b, s, releaseOf(i, "/wanted"), acquireOf(i, "/wanted"))
		i = (i + 1) % many
	}
}

// BenchmarkAskPosition repeats the request of the last of many waiters.
func BenchmarkAskPosition(b *testing.B) {
	s := queued()
	b.ReportAllocs()
	for b.Loop() {
		applied(b, s, acquireOf(many-1, "/wanted"))
	}
}

// BenchmarkEndSession expires a session that holds many locks.
func BenchmarkEndSession(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("holds=%d", n), func(b *testing.B) {
			s := opened(b, 1)
			for i := range n {
				s = applied(b, s, acquireOf(0, fmt.Sprintf("/many/%d", i)))
			}
			b.ReportAllocs()
			for b.Loop() {
				applied(b, s, state.Command{Operation: &state.ExpireSession{Session: sessionID(0)}})
			}
		})
	}
}

func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{1, 128} {
		acquires, _ := cycle(n)
		batch := state.Batch{Epoch: 3, LeaseMS: 2000, Commands: acquires}
		data, err := batch.Encode()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("encode/commands=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := batch.Encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("decode/commands=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := state.DecodeBatch(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSnapshot writes, reads and checks many sessions that hold a lock
// each.
func BenchmarkSnapshot(b *testing.B) {
	s := crowded()
	data := snapshot(b, s)
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := s.Snapshot(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hash", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			s.Hash()
		}
	})
	b.Run("restore", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := state.Restore(bytes.NewReader(data)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Check(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
