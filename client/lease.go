package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/internal/boottime"
)

// lease is the local lease of a session: whether the session may be relied
// upon, by the clock. It changes from Safe to Jeopardy when its time is over,
// back to Safe when it is extended, and finally to Expired.
//
// It has a timer, but trusts the clock only: every method reads the clock
// first, and so never returns a state that is over.
type lease struct {
	clock clock
	grace time.Duration
	// onChange receives each change of state, with the reason if it is Expired,
	// before any other code can see the change. mu is held: onChange must not
	// call methods of the lease.
	onChange func(was, now State, reason error)
	done     chan struct{} // closed when the session is over

	end instant // of the lease; written with mu held, read without

	mu      sync.Mutex // guards the following, and the order of calls of onChange
	state   State
	err     error         // why it is Expired
	changed chan struct{} // closed at the next change of state
	timer   timer
}

// start begins the lease, which ends at the given instant.
func (l *lease) start(end time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done, l.changed = make(chan struct{}), make(chan struct{})
	l.end.set(end)
	l.timer = l.clock.afterFunc(l.wakeIn(l.clock.now()), l.wake)
}

// look updates the state by the clock. mu is held.
func (l *lease) look() {
	now := l.clock.now()
	if l.state == Safe && now >= l.end.get() {
		l.become(Jeopardy, nil)
	}
	if l.state == Jeopardy && now >= l.end.get()+l.grace {
		l.become(Expired, ErrSessionExpired)
	}
}

// become changes the state. mu is held.
func (l *lease) become(state State, reason error) {
	was := l.state
	l.state, l.err = state, reason
	l.onChange(was, state, reason)
	if state == Expired {
		l.timer.Stop()
		close(l.done)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// extend moves the end of the lease, never to an earlier instant, and ends a
// jeopardy.
func (l *lease) extend(until time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	if l.state == Expired || until <= l.end.get() {
		return
	}
	l.end.set(until)
	if l.state == Jeopardy && l.clock.now() < until {
		l.become(Safe, nil)
		l.timer.Reset(l.wakeIn(l.clock.now())) // it was set for the end of the grace
	}
}

// finish ends the session for the given reason, unless it is over. It returns
// the first such reason.
func (l *lease) finish(reason error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	if l.state != Expired {
		l.become(Expired, reason)
	}
	return l.err
}

// now returns the state with its reason, and the channel that closes at the
// next change.
func (l *lease) now() (state State, changed <-chan struct{}, reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	return l.state, l.changed, l.err
}

// over returns why the session is over, and nil while it is not.
func (l *lease) over() error {
	_, _, reason := l.now()
	return reason
}

// remaining returns the time left of the lease, and 0 if the session is not
// Safe.
func (l *lease) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.look(); l.state != Safe {
		return 0
	}
	return max(l.end.get()-l.clock.now(), 0)
}

// whileSafe calls f if the session is Safe, and reports whether it is. The
// state does not change during f: f must not call methods of the lease.
func (l *lease) whileSafe(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.look(); l.state != Safe {
		return false
	}
	f()
	return true
}

// awaitSafe returns nil once the session is safe. It returns the reason if the
// session is over, or the context's error when ctx ends.
func (l *lease) awaitSafe(ctx context.Context) error {
	for {
		state, changed, reason := l.now()
		switch state {
		case Safe:
			return nil
		case Expired:
			return reason
		}
		if err := timing.Await(ctx, changed); err != nil {
			return err
		}
	}
}

// wake runs on the timer: it reads the clock when the state may have changed.
func (l *lease) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.look(); l.state != Expired {
		l.timer.Reset(l.wakeIn(l.clock.now()))
	}
}

// wakeIn returns how long to set the timer. mu is held.
func (l *lease) wakeIn(now time.Duration) time.Duration {
	due := l.end.get()
	if l.state == Jeopardy {
		due += l.grace
	}
	return l.clock.until(due - now)
}

// wakeEvery bounds how late the end of a lease is noticed on a caller's own
// clock: Go's timers may stand still while that clock runs.
const wakeEvery = time.Second

// clock is the clock of the leases.
type clock struct {
	now func() time.Duration
	own bool // the system's clock, which has timers
}

// timer calls a function once, some time after it was set: *time.Timer, or
// *boottime.Timer.
type timer interface {
	Reset(time.Duration) bool
	Stop() bool
}

// afterFunc makes a timer on the clock. f may be called early, so it must read
// the clock and set the timer again, to until.
func (c *clock) afterFunc(d time.Duration, f func()) timer {
	if c.own {
		return boottime.AfterFunc(d, f)
	}
	return time.AfterFunc(c.until(d), f)
}

// until returns the duration to which to set a timer for an instant d from now.
func (c *clock) until(d time.Duration) time.Duration {
	if d = max(d, 0); c.own {
		return d
	}
	return min(d, wakeEvery)
}

// instant is a time on the client's clock, safe for concurrent use.
type instant struct{ ns atomic.Int64 }

func (i *instant) get() time.Duration  { return time.Duration(i.ns.Load()) }
func (i *instant) set(d time.Duration) { i.ns.Store(int64(d)) }
