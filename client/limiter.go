package client

import (
	"container/list"
	"context"
	"sync"
)

// How many of a client's sessions ask at a time for what is answered at once:
// one of so many, and no fewer than fewSlots.
const (
	sessionsPerSlot = 32
	fewSlots        = 8
)

// limiter keeps the sessions of a client from falling upon the cell together.
// When a master dies the keepalives of all of them fail in the same instant.
// Did each dial the next replica at once, there would be more connections to
// open than a listener's backlog holds, and more calls than can be answered
// before their time is out; what is given up then is dialled and asked again,
// and that load keeps the calls from being answered for good. A few at a time
// the sessions come back as fast as the cell answers, those that ask first
// before those that ask again, and until there is a master a few of them look
// for it.
//
// A session with the default ttl makes a keepalive every 8 s, so a
// thirty-second of the sessions is what comes in a quarter of a second when all
// is well. A cell that can carry the sessions at all answers so many well
// before their time is out; and where an answer takes 100 ms, all have had a
// slot after 3.2 s, less than what is left of the lease.
//
// A keepalive that waits at the server needs no slot: it is sent when the one
// before it was answered, so these are as far apart as the answers were.
type limiter struct {
	mu       sync.Mutex // guards the following
	sessions int
	taken    int       // slots
	queue    list.List // of chan struct{}, closed when there is a slot for it
}

// count notes that there are n more sessions, or fewer.
func (l *limiter) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions += n
	l.next()
}

// take waits for a slot, in the order of the calls. It reports false, without a
// slot, when ctx ends first.
func (l *limiter) take(ctx context.Context) bool {
	l.mu.Lock()
	mine := make(chan struct{})
	element := l.queue.PushBack(mine)
	l.next()
	l.mu.Unlock()
	if await(ctx, mine) == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-mine: // both came at once; the caller looks at ctx by itself
		return true
	default:
		l.queue.Remove(element)
		return false
	}
}

// give gives back a slot that take gave.
func (l *limiter) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken--
	l.next()
}

// next lets those at the head of the queue have the slots there are. mu is
// held.
func (l *limiter) next() {
	for l.queue.Len() > 0 && l.taken < max(l.sessions/sessionsPerSlot, fewSlots) {
		close(l.queue.Remove(l.queue.Front()).(chan struct{}))
		l.taken++
	}
}
