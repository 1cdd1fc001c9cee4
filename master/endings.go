package master

import (
	"sync"
)

// mostEnding bounds how many claims may be freed by the session ends proposed
// at a time. One end frees all claims of its session in one step, at about 10
// µs each. Entries with many such ends would delay everything else in the log,
// including the renewal of the lease. A session with more claims ends
// alone.
const mostEnding = 2_000

// endings are the session ends under way and the waiting ones, first come,
// first served. The mutex guards both; no other mutex is taken under it.
type endings struct {
	mu     sync.Mutex
	claims int64 // freed by the ends under way
	queue  []*ending
}

// ending is a session end that waits.
type ending struct {
	claims int64
	turn   chan struct{} // closed when it may be proposed
}

// begin queues a session's end, which may be proposed when the turn channel of
// the result is closed. The caller must then call finish.
func (e *endings) begin(claims int64) *ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := &ending{claims: claims, turn: make(chan struct{})}
	e.queue = append(e.queue, next)
	e.admit()
	return next
}

// finish records that an end is no longer under way.
func (e *endings) finish(one *ending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.claims -= one.claims
	e.admit()
}

// admit closes the turn channels of the ends that fit in. e.mu is held.
func (e *endings) admit() {
	for len(e.queue) > 0 && (e.claims == 0 || e.claims+e.queue[0].claims <= mostEnding) {
		e.claims += e.queue[0].claims
		close(e.queue[0].turn)
		e.queue[0] = nil
		e.queue = e.queue[1:]
	}
}
