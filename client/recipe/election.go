package recipe

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Leader is what the leader at a path says of itself.
type Leader struct {
	// Value is what it gave to Campaign, its address say.
	Value []byte
	// Revision is that of the file that says so; 0 where nobody leads. It grows
	// from one leader to the next: of two, the higher one is the later.
	Revision uint64
}

// Leadership is the office of a leader. It is good while its hold is: do the
// work under Context, and send Token along with it.
type Leadership struct {
	*client.Held
	s        *client.Session
	revision uint64 // of what it has said of itself last
}

// Campaign waits, in the queue of the lock at path, until this session leads,
// and writes value to the file at the same path. ctx bounds the wait only. The
// file is written only while the lock is held, as the cell sees it, and ends
// with the session: a leader that comes late does not overwrite its successor's.
//
// Call Resign in any case, as Unlock of a lock.
func Campaign(ctx context.Context, s *client.Session, path string, value []byte, opts ...client.LockOption) (*Leadership, error) {
	for {
		held, err := s.Lock(ctx, path, opts...)
		if err != nil {
			return nil, err
		}
		l := &Leadership{Held: held, s: s}
		if err = l.Proclaim(ctx, value); err == nil {
			return l, nil
		}
		gone := l.Resign(ctx)
		if !errors.Is(err, client.ErrNotHeld) || s.Err() != nil {
			return nil, errors.Join(err, gone)
		}
	}
}

// Proclaim writes another value. Where the office is over it returns
// client.ErrNotHeld. It is not to be called by two goroutines at a time.
func (l *Leadership) Proclaim(ctx context.Context, value []byte) error {
	stat, err := l.s.Put(ctx, l.Path(), value, client.Ephemeral(), client.While(l.Held))
	if err == nil {
		l.revision = stat.Revision
	}
	return err
}

// Resign ends the office: it deletes what this leader has said of itself, where
// nobody has said anything since, and releases the lock. Its error is that of
// Unlock.
func (l *Leadership) Resign(ctx context.Context) error {
	if l.s.Err() == nil {
		l.retract(ctx)
	}
	return l.Unlock(ctx)
}

// retract deletes what this leader has said of itself. While it holds the lock
// that is whatever is there, also what it was not told it has written. What
// remains where this fails is overwritten by the next leader, and ends with the
// session.
func (l *Leadership) retract(ctx context.Context) {
	ctx, cancel := last(ctx)
	defer cancel()
	_, err := l.s.Delete(ctx, l.Path(), client.While(l.Held))
	if errors.Is(err, client.ErrNotHeld) && l.revision > 0 {
		_, _ = l.s.Delete(ctx, l.Path(), client.IfRevision(l.revision))
	}
}

// Now is who leads; its Revision is 0 where nobody does. As everything that is
// known of a leader it may be out of date when it arrives.
func Now(ctx context.Context, c *client.Client, path string) (Leader, error) {
	file, _, err := find(ctx, c, path)
	if err != nil {
		return Leader{}, err
	}
	return leaderOf(file), nil
}

// Observe yields who leads, then every change of that, for ever. An error is
// yielded last.
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

// Callbacks are what Lead calls.
type Callbacks struct {
	// Started is called when this process leads. Its context ends when the
	// office does, also where an operator releases the lock, and with Lead's: it
	// is to return then, since Lead waits for it. Where it returns before, Lead
	// resigns and returns its error.
	Started func(context.Context, *Leadership) error
	// Stopped, if it is set, is called after each return of Started, when the
	// office has been given up.
	Stopped func()
	// Changed, if it is set, is called with whoever leads, this process or
	// another, and with Leader{} where nobody does; by one goroutine.
	Changed func(Leader)
}

// Lead campaigns, leads, and where it loses the office campaigns again, with a
// new session where it has to, until ctx ends or Started returns of itself. It
// ends, too, where the cell refuses: with client.ErrTooMany, say.
func Lead(ctx context.Context, c *client.Client, path string, value []byte, calls Callbacks, opts ...client.SessionOption) error {
	ctx, stop := context.WithCancel(ctx)
	observed := make(chan struct{})
	defer func() { stop(); <-observed }()
	go func() {
		defer close(observed)
		if calls.Changed != nil {
			reportChanges(ctx, c, path, calls.Changed)
		}
	}()
	for {
		s, err := openSession(ctx, c, opts)
		if err != nil {
			return err
		}
		over, err := leadBy(ctx, s, path, value, calls)
		ending, cancel := last(ctx)
		_ = s.Close(ending) // at worst it expires
		cancel()
		if over {
			return err
		}
	}
}

// reportChanges tells who leads until ctx ends. What ends the events before is
// tried again: the campaign goes on without them.
func reportChanges(ctx context.Context, c *client.Client, path string, changed func(Leader)) {
	told := Leader{Revision: math.MaxUint64} // of nobody
	for ctx.Err() == nil {
		for leader, err := range Observe(ctx, c, path) {
			if err == nil && leader.Revision != told.Revision {
				told = leader
				changed(leader)
			}
		}
		pause(ctx, again)
	}
}

// leadBy leads for as long as a session lives. It says whether Lead is over.
func leadBy(ctx context.Context, s *client.Session, path string, value []byte, calls Callbacks) (over bool, err error) {
	for {
		l, err := Campaign(ctx, s, path, value)
		if err != nil {
			return ctx.Err() != nil || s.Err() == nil, err
		}
		lost, err := l.serve(ctx, calls)
		switch {
		case !lost:
			return true, err
		case s.Err() != nil:
			return false, err
		}
	}
}

// serve is one term of office. It says whether that was lost, rather than given
// up.
func (l *Leadership) serve(ctx context.Context, calls Callbacks) (lost bool, err error) {
	if calls.Stopped != nil {
		defer calls.Stopped()
	}
	defer l.Resign(ctx)
	under, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(l.Context(), func() { end(l.Err()) })()
	go l.awaitRelease(under, l.revision, end)
	err = calls.Started(under, l)
	return ctx.Err() == nil && under.Err() != nil, err
}

// awaitRelease ends the office where somebody else releases the lock, which the
// session does not hear of by itself. after is a revision at which it was held.
func (l *Leadership) awaitRelease(ctx context.Context, after uint64, end func(error)) {
	c := l.s.Client()
	for ctx.Err() == nil {
		for e, err := range c.Watch(ctx, after, client.OnPath(l.Path()), client.OfType(lockapi.EventLockReleased)) {
			if err != nil {
				break // and it is heard of later
			}
			released := e.Hold != nil && e.Hold.Token == l.Token()
			if e.Compacted != nil {
				check, err := c.CheckSequencer(ctx, l.Sequencer())
				if err != nil {
					break
				}
				after, released = e.Compacted.Revision, !check.Valid
			}
			if released {
				end(client.ErrLockLost)
				return
			}
		}
		pause(ctx, again)
	}
}
