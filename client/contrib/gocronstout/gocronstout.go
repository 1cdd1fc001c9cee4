// Package gocronstout lets schedulers of gocron on several machines share their
// jobs by locks of a cell:
//
//	locker, err := gocronstout.NewLocker(cell, "/cron/", 10*time.Second)
//	defer locker.Close(ctx)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// With a Locker each run of a job is made by one scheduler, whichever is first.
// With an Elector one scheduler makes all runs.
//
// gocron does not end a job when its lock is lost. A job that must not run twice
// at a time asks Locker.Held or Elector.Held for the hold, works under its
// context, and sends its token with each write. recipe.EachPeriod gives its job
// such a context.
package gocronstout

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/contrib/internal/session"
	"github.com/stoutlock/stout/lockapi"
)

// Locker is a gocron.Locker.
type Locker struct {
	sessions *session.Opener
	dir      string
	least    time.Duration

	mu    sync.Mutex // guards holds
	holds map[string]*client.Held
}

// NewLocker returns a locker with a lock for each job below dir, which ends in
// "/". A scheduler keeps a job's lock for at least the given time. It must be
// longer than the schedulers' clocks differ, so that a late one does not repeat
// a short job, and shorter than the job's period.
func NewLocker(c *client.Client, dir string, least time.Duration, opts ...client.SessionOption) (*Locker, error) {
	if least < 0 {
		return nil, lockapi.Invalid("least", "a lock cannot be kept for %v", least)
	}
	l := &Locker{sessions: session.New(c, opts...), dir: dir, least: least, holds: make(map[string]*client.Held)}
	return l, lockapi.ValidatePrefix(dir)
}

// Lock implements gocron.Locker. If another scheduler has the lock, the error is
// client.ErrLockHeld.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	s, err := l.sessions.Session(ctx)
	if err != nil {
		return nil, err
	}
	name := strings.ReplaceAll(url.PathEscape(job), ".", "%2E") // "." is not a path
	held, err := s.TryLock(ctx, l.dir+name)
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", job, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds[job] = held
	return &lock{l: l, job: job, held: held, until: time.Now().Add(l.least)}, nil
}

// Held returns the hold under which this scheduler runs a job, or nil.
func (l *Locker) Held(job string) *client.Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holds[job]
}

// Close ends the locker's session. All its locks are free then.
func (l *Locker) Close(ctx context.Context) error { return l.sessions.Close(ctx) }

// lock is the lock of one run.
type lock struct {
	l     *Locker
	job   string
	held  *client.Held
	until time.Time
}

// patience bounds a release that nothing waits for.
const patience = 10 * time.Second

// Unlock implements gocron.Lock.
func (l *lock) Unlock(ctx context.Context) error {
	l.l.mu.Lock()
	if l.l.holds[l.job] == l.held {
		delete(l.l.holds, l.job)
	}
	l.l.mu.Unlock()
	if rest := time.Until(l.until); rest > 0 && l.held.Err() == nil {
		time.AfterFunc(rest, func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			_ = l.held.Unlock(ctx) // if this fails, the session does it or expires
		})
		return nil
	}
	return l.held.Unlock(ctx)
}
