package client

import (
	"context"
	"sync"
	"time"
)

// lease is the local lease of a session: whether the session may be relied
// upon, by the clock. It goes from Safe to Jeopardy when its time is over, back
// when it is extended, and to Expired for good.
//
// It has a timer, but trusts the clock only: every method reads the clock
// first, and so never returns a state that is over.
type lease struct {
	clock clock
	grace time.Duration
	// tell is told of each change of state, to Expired with the reason, before
	// anybody can see it. mu is held: it must not call methods of the lease.
	tell func(State, error)
	done chan struct{} // closed when the session is over

	end instant // when it ends; written with mu held, and read without

	mu      sync.Mutex // guards the following, and the order of what tell is told
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

// look lets the clock's verdict take effect. mu is held.
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
	l.state, l.err = state, reason
	l.tell(state, reason)
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
	}
}

// finish ends the session for the given reason, unless it is over. It returns
// the reason that stands.
func (l *lease) finish(reason error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	if l.state != Expired {
		l.become(Expired, reason)
	}
	return l.err
}

// now is the state with its reason, and the channel that its next change
// closes.
func (l *lease) now() (state State, changed <-chan struct{}, reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	return l.state, l.changed, l.err
}

// over is why the session is over, and nil while it is not.
func (l *lease) over() error {
	_, _, reason := l.now()
	return reason
}

// remaining is what is left of the lease, and 0 where the session is not Safe.
func (l *lease) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.look(); l.state != Safe {
		return 0
	}
	return max(l.end.get()-l.clock.now(), 0)
}

// whileSafe calls f if the session is Safe, and reports whether it is. No
// change of state is told meanwhile: f must not call methods of the lease.
func (l *lease) whileSafe(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.look(); l.state != Safe {
		return false
	}
	f()
	return true
}

// awaitSafe returns once the session is safe, or with the reason why it will
// not be, or when ctx ends.
func (l *lease) awaitSafe(ctx context.Context) error {
	for {
		state, changed, reason := l.now()
		switch state {
		case Safe:
			return nil
		case Expired:
			return reason
		}
		if err := await(ctx, changed); err != nil {
			return err
		}
	}
}

// wake is the timer's only job: to have the clock read when it may matter.
func (l *lease) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.look(); l.state != Expired {
		l.timer.Reset(l.wakeIn(l.clock.now()))
	}
}

// wakeIn is for how long to set the timer. mu is held.
func (l *lease) wakeIn(now time.Duration) time.Duration {
	due := l.end.get()
	if l.state == Jeopardy {
		due += l.grace
	}
	return l.clock.until(due - now)
}
