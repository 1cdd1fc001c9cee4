package recipe

import (
	"context"
	"errors"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Leader is the published entry of the leader at a path.
type Leader struct {
	// Value is the value given to Campaign, for example an address.
	Value []byte
	// Revision is the revision of the leader's file; 0 without a leader. It
	// grows from one leader to the next: the higher of two is the later.
	Revision uint64
}

// Leadership is a leader's term of office. It is good while its hold is: do the
// work under Context, and send Token with it.
type Leadership struct {
	held     *client.Held
	s        *client.Session
	revision uint64 // of the value written last
	over     bool   // the term is handed over
}

// Held returns the hold of the lock, for conditions such as client.While. Give
// the lock up with Resign: Unlock would leave the leader's value behind.
func (l *Leadership) Held() *client.Held { return l.held }

// Context is the hold's: see client.Held.Context.
func (l *Leadership) Context() context.Context { return l.held.Context() }

// Token returns the fencing token of the term.
func (l *Leadership) Token() uint64 { return l.held.Token() }

// Err returns nil until Context ends, and then the reason.
func (l *Leadership) Err() error { return l.held.Err() }

// Campaign waits, in the queue of the lock at path, until this session leads,
// and writes value to the file at the same path. ctx bounds the wait only. The
// file is written only while the cell counts the lock as held, and ends with
// the session. A late leader therefore does not overwrite its successor's file.
//
// Always call Resign, as with Unlock of a lock.
func Campaign(ctx context.Context, s *client.Session, path string, value []byte, opts ...client.LockOption) (*Leadership, error) {
	for {
		held, err := s.Lock(ctx, path, opts...)
		if err != nil {
			return nil, err
		}
		l := &Leadership{held: held, s: s}
		if err = l.Proclaim(ctx, value); err == nil {
			return l, nil
		}
		gone := l.Resign(ctx)
		if !errors.Is(err, client.ErrNotHeld) || s.Err() != nil {
			return nil, errors.Join(err, gone)
		}
	}
}

// Proclaim writes another value. If the term is over it returns
// client.ErrNotHeld. Do not call it from two goroutines at a time.
func (l *Leadership) Proclaim(ctx context.Context, value []byte) error {
	stat, err := l.s.Put(ctx, l.held.Path(), value, client.Ephemeral(), client.While(l.held))
	if err == nil {
		l.revision = stat.Revision
	}
	return err
}

// Resign ends the term: it deletes this leader's value, unless another leader
// has written since, and releases the lock. Its error is Unlock's.
func (l *Leadership) Resign(ctx context.Context) error {
	if l.s.Err() == nil && !l.over {
		l.retract(ctx)
	}
	return l.held.Unlock(ctx)
}

// retract deletes this leader's value. While it holds the lock, the file is its
// own, even after a write with a lost answer. If retract fails, the next leader
// overwrites the file, and the file ends with the session.
func (l *Leadership) retract(ctx context.Context) {
	ctx, cancel := last(ctx)
	defer cancel()
	_, err := l.s.Delete(ctx, l.held.Path(), client.While(l.held))
	if errors.Is(err, client.ErrNotHeld) && l.revision > 0 {
		_, _ = l.s.Delete(ctx, l.held.Path(), client.IfRevision(l.revision))
	}
}

// Now returns the present leader; Revision is 0 without one. Like all knowledge
// of a leader, it may be out of date when it arrives.
func Now(ctx context.Context, c *client.Client, path string) (Leader, error) {
	file, _, err := find(ctx, c, path)
	if err != nil {
		return Leader{}, err
	}
	return leaderOf(file), nil
}

// Observe yields the present leader, then every change, without end. An error
// is yielded last.
func Observe(ctx context.Context, c *client.Client, path string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		for file, err := range present(ctx, c, path) {
			if err != nil {
				yield(Leader{}, err)
				return
			}
			if !yield(leaderOf(file), nil) {
				return
			}
		}
	}
}

func leaderOf(file *client.File) Leader {
	if file == nil {
		return Leader{}
	}
	return Leader{Value: file.Content, Revision: file.Revision}
}

// Callbacks are the functions that Lead calls.
type Callbacks struct {
	// Started is called when this process leads. Its context ends with the term,
	// also when an operator releases the lock, and with Lead's context. It must
	// return then, since Lead waits for it. If it returns earlier, Lead resigns
	// and returns its error. If it returns an error because the lock was lost,
	// such as a refused token, Lead campaigns again.
	Started func(context.Context, *Leadership) error
	// Stopped, if set, is called after each return of Started, when the term has
	// ended.
	Stopped func()
	// Priority, from 0 to lockapi.MaxPriority, makes this process lead before the
	// candidates of lower priority that wait.
	Priority int
	// Handover, if set, is called when a candidate of higher Priority is next in
	// the queue, and every five seconds while one is. If it returns true, the context of Started ends with
	// ErrHandover. Lead then gives the lock to that candidate, in one step and
	// with its value in place until the candidate publishes its own, and
	// campaigns again.
	Handover func() bool
	// Changed, if set, is called with each new leader, this process or another,
	// and with Leader{} without one; by one goroutine.
	Changed func(Leader)
}

// Lead campaigns and leads. If it loses the office it campaigns again, with a
// new session if necessary, until ctx ends or Started returns by itself. It
// also ends if the cell refuses, for example with client.ErrTooMany.
func Lead(ctx context.Context, c *client.Client, path string, value []byte, calls Callbacks, opts ...client.SessionOption) error {
	if calls.Started == nil {
		return lockapi.Invalid("Started", "recipe: Callbacks.Started is nil; it is the leader's work")
	}
	ctx, stop := context.WithCancel(ctx)
	observed := make(chan struct{})
	defer func() { stop(); <-observed }()
	go func() {
		defer close(observed)
		if calls.Changed != nil {
			reportChanges(ctx, c, path, calls.Changed)
		}
	}()
	return inSessions(ctx, c, opts, func(s *client.Session) (bool, error) {
		l, err := Campaign(ctx, s, path, value, client.Priority(calls.Priority))
		if err != nil {
			return failed(ctx, s, err)
		}
		return l.serve(ctx, calls)
	})
}

// reportChanges calls changed for each new leader until ctx ends. It retries
// after an error, since the campaign continues without the events.
func reportChanges(ctx context.Context, c *client.Client, path string, changed func(Leader)) {
	latest := Leader{Revision: math.MaxUint64} // no real leader
	for ctx.Err() == nil {
		for leader, err := range Observe(ctx, c, path) {
			if err == nil && leader.Revision != latest.Revision {
				latest = leader
				changed(leader)
			}
		}
		pause(ctx, again)
	}
}

// serve runs one term of office. It reports whether the term was lost rather
// than given up.
func (l *Leadership) serve(ctx context.Context, calls Callbacks) (lost bool, err error) {
	if calls.Stopped != nil {
		defer calls.Stopped()
	}
	resign := sync.OnceValue(func() error { return l.Resign(ctx) })
	defer resign() // also if Started panics
	inner, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(l.Context(), func() { end(l.Err()) })()
	under := &checkedContext{inner, end, func() error {
		if l.Context().Err() == nil {
			return nil
		}
		return context.Cause(l.Context())
	}}
	if calls.Handover != nil {
		go func() {
			if l.awaitHandover(under, calls) {
				end(ErrHandover)
			}
		}()
	}
	err = calls.Started(under, l)
	l.over = ctx.Err() == nil && context.Cause(under) == ErrHandover // ctx may end for the handover of another term
	lost = under.Err() != nil
	gone := resign()
	return ctx.Err() == nil && (lost || err != nil && isLoss(gone)), err
}

// awaitHandover waits until a candidate of higher priority is next and Handover
// agrees, and reports whether the term may be handed over.
func (l *Leadership) awaitHandover(ctx context.Context, calls Callbacks) bool {
	for ; ctx.Err() == nil; pause(ctx, askAgain) {
		if AwaitPriority(ctx, l.s.Client(), l.held.Path(), calls.Priority) != nil || !calls.Handover() {
			continue
		}
		lock, err := l.s.Client().ReadLock(ctx, l.held.Path(), client.Waiters(1)) // the candidate may be gone by now
		if err == nil && hasPriority(&lock, calls.Priority) {
			return true
		}
	}
	return false
}

// askAgain is the time between two calls of Handover.
const askAgain = 5 * time.Second

// isLoss reports whether an unlock found that the lock was lost before.
func isLoss(err error) bool {
	return errors.Is(err, client.ErrLockLost) || errors.Is(err, client.ErrSessionExpired)
}
