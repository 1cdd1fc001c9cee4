package peers

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errMasterGone ends a forwarded call if its replica is no longer the master.
var errMasterGone = errors.New("the replica with the call is no longer the known master")

// errStopping ends a forwarded call that would keep this replica from stopping.
var errStopping = errors.New("the replica that forwarded the call is stopping")

// The interval between checks whether the replica with a forwarded call is
// still the known master, and the number of consecutive failures that ends the
// call.
const (
	watchEvery = 250 * time.Millisecond
	watchMost  = 4
)

// Watch ends forwarded calls when their replica has not been the known master
// for a second. A paused or isolated replica would otherwise keep a call
// forever; a live replica that lost its office has answered by then. Watch also
// ends the calls when this replica stops.
type Watch struct {
	master   func() string // returns the id of the known master
	stopping <-chan struct{}

	mu     sync.Mutex            // guards the following fields, and back and missed of the calls
	calls  map[uint64]*Forwarded // by number, so that simulated runs do not depend on addresses
	newest uint64
}

// Forwarded is a forwarded call.
type Forwarded struct {
	of     *Watch
	soon   *time.Timer // starts the watch of the call
	number uint64      // 0 before the watch starts
	to     string      // id of the replica that has the call
	end    context.CancelCauseFunc
	missed int
	back   bool // the call has returned
}

// NewWatch returns a watch of forwarded calls. master returns the id of the
// known master; stopping is closed when this replica stops.
func NewWatch(master func() string, stopping <-chan struct{}) *Watch {
	return &Watch{master: master, stopping: stopping}
}

// Forward registers a call that is forwarded to a replica. end is called if
// that replica is no longer the master. A short call causes no check.
func (l *Watch) Forward(to string, end context.CancelCauseFunc) *Forwarded {
	a := &Forwarded{of: l, to: to, end: end}
	a.soon = time.AfterFunc(watchEvery, func() { l.add(a) })
	return a
}

// Done records that the call has returned.
func (a *Forwarded) Done() {
	if a.soon.Stop() {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.back = true
	delete(a.of.calls, a.number)
}

// add starts watching a call. The first call starts the goroutine.
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

// run checks the calls until none is left.
func (l *Watch) run() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for l.check(l.master()) {
		select {
		case <-tick.C:
		case <-l.stopping:
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, a := range l.calls {
				a.end(errStopping)
			}
			l.calls = nil
			return
		}
	}
}

// check ends the calls that failed too many checks, and reports whether any
// calls are left.
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
