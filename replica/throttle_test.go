package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// slowWriter takes a time for each piece.
type slowWriter time.Duration

func (w slowWriter) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(w))
	return len(b), nil
}

// TestRests: as long as a piece takes, but not behind a disk that hangs.
func TestRests(t *testing.T) {
	for piece, want := range map[time.Duration]time.Duration{
		0: 0, time.Millisecond: time.Millisecond, 3 * time.Millisecond: 3 * time.Millisecond, time.Second: longestRest,
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			g := newThrottle(slowWriter(piece))
			for range 5 {
				if n, err := g.Write([]byte("piece")); n != 5 || err != nil {
					t.Fatalf("%d, %v", n, err)
				}
			}
			if took := time.Since(began); g.rested != 5*want || took != 5*(piece+want) {
				t.Errorf("5 pieces of %v: rested %v of %v, want %v", piece, g.rested, took, 5*want)
			}
		})
	}
}

// TestThrottledSum is the state's hash.
func TestThrottledSum(t *testing.T) {
	s, _ := state.New().Apply(1, 1, state.Batch{LeaseMS: 1000, Commands: []state.Command{{Operation: &state.OpenOffice{Term: 1, Master: "r1"}}}})
	if sum, _ := throttledSum(s); sum != s.Hash() {
		t.Errorf("%x, want %x", sum, s.Hash())
	}
}
