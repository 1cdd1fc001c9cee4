package client

import (
	"container/list"
	"context"
	"sync"

	"github.com/stoutlock/stout/client/internal/timing"
)

// The number of a client's sessions that make an immediate call at a time: one
// in sessionsPerSlot, and at least fewSlots.
const (
	sessionsPerSlot = 32
	fewSlots        = 8
)

// limiter keeps the sessions of a client from calling the cell all at once.
// When a master dies all their keepalives fail in the same instant. If each
// dialled the next replica at once, there would be more connections to open
// than a listener's backlog holds, and more calls than can be answered in time.
// Calls that time out are dialled and sent again, and that load would keep the
// cell from ever answering. With a few at a time, the sessions come back as
// fast as the cell answers. First attempts go before repeated ones. Until there
// is a master, a few sessions look for it.
//
// A session with the default ttl makes a keepalive every 8 s, so a
// thirty-second of the sessions is the load of a quarter of a second in normal
// operation. A cell that can carry the sessions at all answers so many well in
// time. If an answer takes 100 ms, all have had a slot after 3.2 s, less than
// what is left of the lease.
//
// A keepalive that waits at the server needs no slot: it follows the answer to
// the one before it, so these are as far apart as the answers were. Nor does one
// that several sessions share, since a client has few of these, unless it is a
// part of one that failed.
type limiter struct {
	mu       sync.Mutex // guards the following
	sessions int
	inUse    int       // slots
	queue    list.List // of chan struct{}, closed on getting a slot
}

// count adds n to the number of sessions; n may be negative.
func (l *limiter) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions += n
	l.next()
}

// hasOne reports whether there is only one session.
func (l *limiter) hasOne() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions == 1
}

// acquire waits for a slot, in the order of the calls. It reports false, without a
// slot, when ctx ends first.
func (l *limiter) acquire(ctx context.Context) bool {
	l.mu.Lock()
	mine := make(chan struct{})
	element := l.queue.PushBack(mine)
	l.next()
	l.mu.Unlock()
	if timing.Await(ctx, mine) == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-mine: // both came at once; the caller checks ctx itself
		return true
	default:
		l.queue.Remove(element)
		return false
	}
}

func (l *limiter) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inUse--
	l.next()
}

// next gives free slots to the head of the queue. mu is held.
func (l *limiter) next() {
	for l.queue.Len() > 0 && l.inUse < max(l.sessions/sessionsPerSlot, fewSlots) {
		close(l.queue.Remove(l.queue.Front()).(chan struct{}))
		l.inUse++
	}
}
