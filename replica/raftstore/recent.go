package raftstore

import (
	"slices"
	"sync"
	"time"
)

// recentWrites is how many writes to the log show the disk's current speed. A
// leader makes at least four in a term of its lease, and its followers as many.
const recentWrites = 7

// recent holds the durations of the last writes to the log, each with its sync.
type recent struct {
	mu   sync.Mutex
	took [recentWrites]time.Duration
	n    int // number of recorded writes
}

func (r *recent) note(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took[r.n%recentWrites] = took
	r.n++
}

// median returns the median duration of the last writes, 0 while there are too
// few.
func (r *recent) median() time.Duration {
	r.mu.Lock()
	took := r.took
	n := r.n
	r.mu.Unlock()
	if n < recentWrites {
		return 0
	}
	slices.Sort(took[:])
	return took[recentWrites/2]
}
