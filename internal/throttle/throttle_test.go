package throttle

import (
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// slowWriter takes the given time for each piece.
type slowWriter time.Duration

func (w slowWriter) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(w))
	return len(b), nil
}

// TestRests: the writer rests as long as a piece took, except after a disk that hung.
func TestRests(t *testing.T) {
	for piece, want := range map[time.Duration]time.Duration{
		0: 0, time.Millisecond: time.Millisecond, 3 * time.Millisecond: 3 * time.Millisecond, time.Second: longestRest,
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			g := NewWriter(slowWriter(piece))
			for range 5 {
				if n, err := g.Write([]byte("piece")); n != 5 || err != nil {
					t.Fatalf("%d, %v", n, err)
				}
			}
			if took := time.Since(began); g.Rested() != 5*want || took != 5*(piece+want) {
				t.Errorf("5 pieces of %v: rested %v of %v, want %v", piece, g.Rested(), took, 5*want)
			}
		})
	}
}
