package peers

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

// Watch ends forwarded calls when another master than theirs, or none,
// has been known for a second: a replica that is paused or cut off would keep a
// call for ever, and one that is alive and lost its office has answered by
// then. It also ends them when this replica stops.
type Watch struct {
	master   func() string // the id of the known one
	stopping <-chan struct{}

	mu     sync.Mutex            // guards what follows, and back and missed of the calls
	calls  map[uint64]*Forwarded // by number, so that a simulated run does not depend on addresses
	newest uint64
}

// Forwarded is a call that was forwarded.
type Forwarded struct {
	of     *Watch
	soon   *time.Timer // has it watched
	number uint64      // 0 before it is watched
	to     string      // id of the replica that has it
	end    context.CancelCauseFunc
	missed int
	back   bool // it needs no look any more
}

// NewWatch returns a watch of the calls of a replica that knows a master, by its id, and
// that closes stopping when it stops.
func NewWatch(master func() string, stopping <-chan struct{}) *Watch {
	return &Watch{master: master, stopping: stopping}
}

// Forward notes a call that is forwarded to a replica. end is called if that one is no
// longer the master. A call that is short costs no look.
func (l *Watch) Forward(to string, end context.CancelCauseFunc) *Forwarded {
	a := &Forwarded{of: l, to: to, end: end}
	a.soon = time.AfterFunc(watchEvery, func() { l.add(a) })
	return a
}

// Done says that the call is back.
func (a *Forwarded) Done() {
	if !a.soon.Stop() {
		a.of.remove(a)
	}
}

// add looks after a call from now on. The first call has a goroutine begin.
func (l *Watch) add(a *Forwarded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.back {
		return
	}
	if l.calls == nil {
		l.calls = map[uint64]*Forwarded{}
		go l.run()
	}
	l.newest++
	a.number = l.newest
	l.calls[a.number] = a
}

// remove lets a call be.
func (l *Watch) remove(a *Forwarded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.back = true
	delete(l.calls, a.number)
}

// run looks until there is no call left.
func (l *Watch) run() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for l.check(l.master()) {
		select {
		case <-tick.C:
		case <-l.stopping:
			l.endAll()
			return
		}
	}
}

// check ends the calls whose time is over, and reports whether any are left.
func (l *Watch) check(master string) (more bool) {
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

func (l *Watch) endAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.calls {
		a.end(errStopping)
	}
	l.calls = nil
}
