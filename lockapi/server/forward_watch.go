package server

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errMasterGone ends a forwarded call whose replica is no longer the master.
var errMasterGone = errors.New("the replica that took the call is no longer known as the master")

// errStopping ends a forwarded call that would keep this replica from stopping.
var errStopping = errors.New("the replica that forwarded the call is stopping")

// How often is looked whether the replica that has a forwarded call is known as
// the master still, and for how many looks in a row it may not be.
const (
	watchEvery = 250 * time.Millisecond
	watchMost  = 4
)

// forwardWatch ends forwarded calls when another master than theirs, or none,
// has been known for a second: a replica that is paused or cut off would keep a
// call for ever, and one that is alive and lost its office has answered by
// then. It also ends them when this replica stops.
type forwardWatch struct {
	mu     sync.Mutex            // guards what follows, and back and missed of the calls
	calls  map[uint64]*forwarded // by number, so that a simulated run does not depend on addresses
	newest uint64
}

// forwarded is a call that was forwarded.
type forwarded struct {
	number uint64 // 0 before it is watched
	to     string // id of the replica that has it
	end    context.CancelCauseFunc
	missed int
	back   bool // it needs no look any more
}

// add looks after a call from now on. The first call has a goroutine begin.
func (l *forwardWatch) add(x *exchange, a *forwarded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.back {
		return
	}
	if l.calls == nil {
		l.calls = map[uint64]*forwarded{}
		go l.run(x.master, x.stopping)
	}
	l.newest++
	a.number = l.newest
	l.calls[a.number] = a
}

// remove lets a call be.
func (l *forwardWatch) remove(a *forwarded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.back = true
	delete(l.calls, a.number)
}

// run looks until there is no call left.
func (l *forwardWatch) run(at Locator, stopping <-chan struct{}) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for l.check(at.Known().ID) {
		select {
		case <-tick.C:
		case <-stopping:
			l.endAll()
			return
		}
	}
}

// check ends the calls whose time is over, and reports whether any are left.
func (l *forwardWatch) check(master string) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for number, a := range l.calls {
		if a.missed++; a.to == master {
			a.missed = 0
		}
		if a.missed == watchMost {
			a.end(errMasterGone)
			delete(l.calls, number)
		}
	}
	if len(l.calls) == 0 {
		l.calls = nil
	}
	return l.calls != nil
}

func (l *forwardWatch) endAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.calls {
		a.end(errStopping)
	}
	l.calls = nil
}
