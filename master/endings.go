package master

import (
	"sync"
)

// mostEnding bounds how many claims the sessions have together whose ends are
// proposed at a time. An end frees all of them in one step, at about 10 µs
// each, and entries that carry many such ends would keep the log from
// everything else, the renewal of the lease included. A session that has more
// ends by itself.
const mostEnding = 2_000

// endings are the ends of sessions under way, and those that wait for their
// turn, first come first served. The mutex guards both; no other is taken under
// it.
type endings struct {
	mu     sync.Mutex
	claims int64 // of those under way
	queue  []*ending
}

// ending is an end that waits.
type ending struct {
	claims int64
	turn   chan struct{} // closed when it may be proposed
}

// begin asks for the turn of a session's end, which is there when the channel
// of what it returns is closed; finish has to follow then.
func (e *endings) begin(claims int64) *ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := &ending{claims: claims, turn: make(chan struct{})}
	e.queue = append(e.queue, next)
	e.admit()
	return next
}

// finish notes that an end is no longer under way.
func (e *endings) finish(one *ending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.claims -= one.claims
	e.admit()
}

// admit gives those their turn that fit in. e.mu is held.
func (e *endings) admit() {
	for len(e.queue) > 0 && (e.claims == 0 || e.claims+e.queue[0].claims <= mostEnding) {
		e.claims += e.queue[0].claims
		close(e.queue[0].turn)
		e.queue[0] = nil
		e.queue = e.queue[1:]
	}
}
