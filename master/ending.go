package master

import (
	"github.com/stoutlock/stout/replica/state"
)

// mostEnding bounds how many claims the sessions have together whose ends are
// proposed at a time. An end frees all of them in one step, at about 10 µs each,
// and entries that carry many such ends would keep the log from everything else,
// the renewal of the lease included. A session that has more ends by itself.
const mostEnding = 2_000

// endings are the ends of sessions under way, and those that wait for their turn,
// first come first served. Guarded by the office's mutex.
type endings struct {
	claims int64
	queue  []*turn
}

// turn is an end that waits.
type turn struct {
	claims int64
	come   chan struct{} // closed when it may be proposed
}

// proposeEnd is propose for the end of a session.
func (o *office) proposeEnd(op state.Operation, session string) (state.Result, error) {
	o.mu.Lock()
	t := &turn{claims: 1, come: make(chan struct{})}
	if s := o.sessions[session]; s != nil {
		t.claims += s.use.holds
	}
	o.endings.queue = append(o.endings.queue, t)
	o.endings.admit()
	o.mu.Unlock()
	select {
	case <-t.come:
	case <-o.done:
		return nil, errNoMaster("mastership was lost before the call took effect")
	}
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.endings.claims -= t.claims
		o.endings.admit()
	}()
	return o.propose(op)
}

// admit lets those come whose turn it is.
func (e *endings) admit() {
	for len(e.queue) > 0 && (e.claims == 0 || e.claims+e.queue[0].claims <= mostEnding) {
		e.claims += e.queue[0].claims
		close(e.queue[0].come)
		e.queue[0] = nil
		e.queue = e.queue[1:]
	}
}
