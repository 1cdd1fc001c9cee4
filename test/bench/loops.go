package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// field is the participants of a loop: one client and one session for each
// worker.
type field struct {
	clients  []target.Client
	sessions []target.Session // nil for works without sessions
	steps    []load.Step
	closed   bool          // the work makes sense in a closed loop only
	shares   bool          // show how evenly the sessions are served
	tries    *atomic.Int64 // tries of all operations; nil if each takes one
}

// prepare makes the steps of a work. Even on an error, the field has everything
// that it opened.
type prepare func(ctx context.Context, b *bench, f *field) error

// closing bounds the closing of a loop's sessions.
const closing = 30 * time.Second

// close closes the sessions, even if ctx has ended.
func (f *field) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	target.CloseAll(ctx, f.sessions)
	for _, c := range f.clients {
		_ = c.Close() // idle connections only: the error loses no data
	}
}

// clients makes a field of n clients, without sessions.
func (b *bench) clients(via string, n int) (*field, error) {
	clients, err := target.Clients(via, b.cell.Way(), n)
	return &field{clients: clients}, err
}

// inTurn returns n clients, each of all in turn.
func inTurn[T any](all []T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = all[i%len(all)]
	}
	return out
}

func (f *field) openSessions(ctx context.Context, b *bench) (err error) {
	f.sessions, err = target.OpenAll(ctx, f.clients, b.ttl)
	return err
}

// openOne opens one more session, through the first client, for all workers.
func (f *field) openOne(ctx context.Context, b *bench) (target.Session, error) {
	s, err := f.clients[0].Open(ctx, b.ttl)
	if err == nil {
		f.sessions = append(f.sessions, s)
	}
	return s, err
}

// nodePath returns the path of a lock or file that only this work uses.
func nodePath(work string, i int) string { return fmt.Sprintf("/bench/%s/%d", work, i) }

// prepareCycle: one operation acquires and releases the worker's own lock.
func prepareCycle(ctx context.Context, b *bench, f *field) error {
	if err := f.openSessions(ctx, b); err != nil {
		return err
	}
	for i, s := range f.sessions {
		f.steps = append(f.steps, load.Timed(cycle(s, nodePath("cycle", i))))
	}
	return nil
}

func cycle(s target.Session, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := s.TryLock(ctx, path); err != nil {
			return err
		}
		return s.Unlock(ctx)
	}
}

// prepareRead: every worker reads the same lock, which is held.
func prepareRead(ctx context.Context, b *bench, f *field) error {
	path, err := holdOne(ctx, b, f, "read")
	if err != nil {
		return err
	}
	for _, c := range f.clients {
		f.steps = append(f.steps, load.Timed(func(ctx context.Context) error { return c.Read(ctx, path) }))
	}
	return nil
}

// holdOne makes a session acquire a lock and keep it.
func holdOne(ctx context.Context, b *bench, f *field, work string) (path string, err error) {
	holder, err := f.openOne(ctx, b)
	if err != nil {
		return "", err
	}
	path = nodePath(work, 0)
	_, err = holder.TryLock(ctx, path)
	return path, err
}

// errGranted reports the grant of a lock that another session holds.
var errGranted = errors.New("a lock that is held was granted to another session")

// prepareRefuse: each refusal is one operation.
func prepareRefuse(ctx context.Context, b *bench, f *field) error {
	if err := f.openSessions(ctx, b); err != nil {
		return err
	}
	tries := f.sessions
	path, err := holdOne(ctx, b, f, "refuse")
	if err != nil {
		return err
	}
	for _, s := range tries {
		f.steps = append(f.steps, load.Timed(func(ctx context.Context) error {
			_, err := s.TryLock(ctx, path)
			switch {
			case errors.Is(err, target.ErrRefused):
				return nil
			case err == nil:
				return errGranted
			}
			return err
		}))
	}
	return nil
}

// prepareHandover: every worker waits for the one lock and releases it at once.
func prepareHandover(ctx context.Context, b *bench, f *field) error {
	f.closed, f.shares = true, true
	if err := f.openSessions(ctx, b); err != nil {
		return err
	}
	baton := &baton{path: nodePath("handover", 0)}
	for _, s := range f.sessions {
		f.steps = append(f.steps, baton.step(s))
	}
	return nil
}

// baton is a lock that is handed over from worker to worker. The lock itself
// guards the fields. They are atomic so that a double grant is detected as an
// error, not as a data race.
type baton struct {
	path     string
	token    atomic.Uint64 // of the latest holder
	holders  atomic.Int32
	released atomic.Pointer[time.Time] // when the last release was called
}

// step waits for the lock and releases it. Its latency is the hand-over's: from
// the call of the previous holder's release until this holder knows. An acquire
// that began after that call does not count as a hand-over.
func (b *baton) step(s target.Session) load.Step {
	var own uint64 // of the previous hold, which remains after a failed release
	return func(ctx context.Context, _ time.Time) (time.Duration, error) {
		asked := time.Now()
		token, err := s.Lock(ctx, b.path)
		if err != nil {
			return 0, err
		}
		known := time.Now()
		if token == own {
			return 0, errors.Join(load.ErrNotCounted, s.Unlock(ctx))
		}
		own = token
		released, err := b.acquired(token)
		if err != nil {
			return 0, errors.Join(err, s.Unlock(ctx))
		}
		now := time.Now()
		b.released.Store(&now)
		b.holders.Add(-1)
		if err := s.Unlock(ctx); err != nil {
			return 0, err
		}
		if released == nil || !asked.Before(*released) {
			return 0, load.ErrNotCounted
		}
		return known.Sub(*released), nil
	}
}

// acquired checks the lock's guarantees: one holder, and growing tokens. It returns
// the time when the previous holder called its release.
func (b *baton) acquired(token uint64) (*time.Time, error) {
	others := b.holders.Add(1) - 1
	before := b.token.Swap(token)
	if others != 0 || token <= before {
		b.holders.Add(-1)
		return nil, fmt.Errorf("token %d was granted after token %d, with %d holders besides", token, before, others)
	}
	return b.released.Load(), nil
}
