package state_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stoutlock/stout/replica/state"
)

// crowded returns a state with 100 000 sessions that hold one lock each.
func crowded(b *testing.B) *state.State {
	const many = 100_000
	s := opened(b, many)
	var all []state.Command
	for i := range many {
		all = append(all, acquireOf(i, fmt.Sprintf("/held/%d", i)))
	}
	for part := range slices.Chunk(all, 1000) {
		s = applied(b, s, part...)
	}
	return s
}

func acquireOf(i int, path string) state.Command {
	return state.Command{Time: 1_700_000_000_000_000_000, Operation: &state.Acquire{Session: sessionID(i), Path: path,
		Mode: state.Exclusive, Wait: state.WhileConnected}}
}

// BenchmarkCycle acquires and releases locks, in batches of the given size. An
// operation is one acquire with its release.
func BenchmarkCycle(b *testing.B) {
	for name, s := range map[string]*state.State{"empty": opened(b, 128), "held=100k": crowded(b)} {
		for _, n := range []int{1, 128} {
			var acquires, releases []state.Command
			for i := range n {
				c := acquireOf(i, fmt.Sprintf("/bench/%d", i))
				acquires, releases = append(acquires, c), append(releases, state.Command{Time: c.Time,
					Operation: &state.Release{Session: sessionID(i), Path: fmt.Sprintf("/bench/%d", i)}})
			}
			b.Run(fmt.Sprintf("%s/batch=%d", name, n), func(b *testing.B) {
				s := s
				b.ReportAllocs()
				for done := 0; done < b.N; done += n {
					s = applied(b, s, acquires...)
					s = applied(b, s, releases...)
				}
			})
		}
	}
}
