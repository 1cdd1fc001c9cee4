package client

import (
	"container/list"
	"context"
	"sync"
)

// How many of a client's sessions ask at a time for what is answered at once:
// one of so many, and no fewer than fewTurns.
const (
	sessionsPerTurn = 32
	fewTurns        = 8
)

// turns keeps the sessions of a client from falling upon the cell together.
// When a master dies the keepalives of all of them fail in the same instant.
// Did each dial the next replica at once, there would be more connections to
// open than a listener's backlog holds, and more calls than can be answered
// before their time is out; what is given up then is dialled and asked again,
// and that load keeps the calls from being answered for good. In turns the
// sessions come back as fast as the cell answers, those that ask first before
// those that ask again, and until there is a master a few of them look for it.
//
// A session with the default ttl makes a keepalive every 8 s, so a thirty-second
// of the sessions is what comes in a quarter of a second when all is well. A
// cell that can carry the sessions at all answers so many well before their time
// is out; and where an answer takes 100 ms, all have had a turn after 3.2 s,
// less than what is left of the lease.
//
// A keepalive that waits at the server needs no turn: it is sent when the one
// before it was answered, so these are as far apart as the answers were.
type turns struct {
	mu       sync.Mutex
	sessions int
	taken    int
	queue    list.List // of chan struct{}, closed when the turn has come
}

// count notes that there are n more sessions, or fewer.
func (t *turns) count(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions += n
	t.next()
}

// take waits for a turn, in the order of the calls. It reports false, without a
// turn, when ctx ends first.
func (t *turns) take(ctx context.Context) bool {
	t.mu.Lock()
	mine := make(chan struct{})
	place := t.queue.PushBack(mine)
	t.next()
	t.mu.Unlock()
	select {
	case <-mine:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-mine: // both came at once; whoever takes a turn looks at ctx himself
		return true
	default:
		t.queue.Remove(place)
		return false
	}
}

// give ends a turn that take gave.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	t.next()
}

// next lets those at the head of the queue have their turns. t.mu is held.
func (t *turns) next() {
	for t.queue.Len() > 0 && t.taken < max(t.sessions/sessionsPerTurn, fewTurns) {
		close(t.queue.Remove(t.queue.Front()).(chan struct{}))
		t.taken++
	}
}
