package raftstore

import (
	"slices"
	"sync"
	"time"
)

// recentWrites is how many writes to the log say how fast the disk is at present. A
// leader has at least four in a term of its lease, and its followers have as many.
const recentWrites = 7

// recent is how long the last writes to the log took, each with its sync.
type recent struct {
	mu   sync.Mutex
	took [recentWrites]time.Duration
	n    int // that were noted
}

func (r *recent) note(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took[r.n%recentWrites] = took
	r.n++
}

// median is the time that half of the last writes took at most, 0 before there are
// as many.
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
