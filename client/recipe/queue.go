package recipe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Queue is a queue of jobs at a directory. A job is a file jobs/NAME below it,
// whose names grow in the order in which they were added. That somebody does it
// is an ephemeral file taken/NAME: where the worker dies the job is there for
// others.
type Queue struct{ dir string }

// NewQueue is the queue at dir, which is given with the "/" at its end.
func NewQueue(dir string) (Queue, error) {
	return Queue{dir}, lockapi.ValidatePrefix(dir)
}

// Job is one job of a queue.
type Job struct {
	Name    string
	Content []byte
}

// Add adds a job, exactly once, and returns its name.
func (q Queue) Add(ctx context.Context, s *client.Session, content []byte) (string, error) {
	stat, err := s.CreateSequential(ctx, q.jobs(), content)
	return strings.TrimPrefix(stat.Path, q.jobs()), err
}

func (q Queue) jobs() string  { return q.dir + "jobs/" }
func (q Queue) taken() string { return q.dir + "taken/" }

// Work takes one job after another, the first that nobody does first, and calls
// do for it, until ctx or the session ends. A job whose do returns nil is gone
// from the queue, if nobody else has taken it meanwhile. One whose do fails is
// given back; this worker leaves it to others for a second.
//
// do's context ends as soon as the session cannot be relied upon: somebody else
// may have the job then, and do is to return. A job that was done by a worker
// who could not say so any more is done again: what do does must stand that.
func (q Queue) Work(ctx context.Context, s *client.Session, do func(context.Context, Job) error) error {
	ctx, end := whileOpen(ctx, s)
	defer end()
	w := worker{q: q, s: s, jobs: make(map[string]bool), taken: make(map[string]bool), later: make(map[string]time.Time), news: make(chan struct{}, 1)}
	go w.follow(ctx)
	for ctx.Err() == nil {
		name, wait := w.next(time.Now())
		if name == "" {
			w.await(ctx, wait)
		} else if err := w.try(ctx, name, do); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// worker is one call of Work.
type worker struct {
	q    Queue
	s    *client.Session
	news chan struct{} // something has changed below

	mu    sync.Mutex           // guards what follows
	known bool                 // the present files have been told
	jobs  map[string]bool      // by name: those that there are
	taken map[string]bool      // and those that somebody does
	later map[string]time.Time // those to leave alone until then
}

// follow keeps the account of what there is to do.
func (w *worker) follow(ctx context.Context) {
	for ctx.Err() == nil {
		w.begin()
		for change, err := range w.s.Client().Follow(ctx, w.q.dir) {
			if err != nil {
				break
			}
			w.note(&change)
		}
		pause(ctx, again)
	}
}

// begin forgets what was told: what has gone since is not told again.
func (w *worker) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = false
	clear(w.jobs)
	clear(w.taken)
}

func (w *worker) note(change *client.FileChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = w.known || change.Synced
	set := w.jobs
	name, isJob := strings.CutPrefix(change.Path, w.q.jobs())
	if !isJob {
		name, set = strings.TrimPrefix(change.Path, w.q.taken()), w.taken
	}
	if change.File != nil {
		set[name] = true
	} else {
		delete(set, name)
	}
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// next is the first job to try; empty where there is none, with the time after
// which there may be one again, 0 for never.
func (w *worker) next(now time.Time) (name string, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for job, until := range w.later {
		if !now.Before(until) {
			delete(w.later, job)
		} else if left := until.Sub(now); wait == 0 || left < wait {
			wait = left
		}
	}
	for job := range w.jobs {
		if _, leave := w.later[job]; w.known && !leave && !w.taken[job] && (name == "" || job < name) {
			name = job
		}
	}
	return name, wait
}

// await waits for news, or for so long.
func (w *worker) await(ctx context.Context, wait time.Duration) {
	var over <-chan time.Time
	if wait > 0 {
		over = time.After(wait)
	}
	select {
	case <-w.news:
	case <-over:
	case <-ctx.Done():
	}
}

// leave leaves a job alone for a while.
func (w *worker) leave(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.later[name] = time.Now().Add(again)
}

// try takes a job and does it. Where it is not to be had that is no error: it
// is left alone until the events tell of whoever has it.
func (w *worker) try(ctx context.Context, name string, do func(context.Context, Job) error) error {
	job, claim := w.q.jobs()+name, w.q.taken()+name
	took, err := w.s.Txn().
		If(client.WhenPresent(job), client.WhenAbsent(claim)).
		Then(client.OpCreate(claim, nil, client.Ephemeral())).
		Commit(ctx)
	if err != nil {
		return err
	}
	defer w.leave(name)
	if !took.Succeeded {
		return nil
	}
	revision := took.Results[0].File.Revision
	under, end := whileSafe(ctx, w.s)
	failed := w.do(under, name, do)
	end()
	ctx, cancel := outlast(ctx)
	defer cancel()
	if failed != nil {
		_, err = w.s.Delete(ctx, claim, client.IfRevision(revision))
		return unlessOver(w.s, err)
	}
	_, err = w.s.Txn().If(client.WhenRevision(claim, revision)).Then(client.OpDelete(job), client.OpDelete(claim)).Commit(ctx)
	return unlessOver(w.s, err)
}

// do does a job that was taken. Its content is read by a call of its own: what a
// transaction of a session reads is remembered with its answer, and bounded.
func (w *worker) do(ctx context.Context, name string, do func(context.Context, Job) error) error {
	file, err := w.s.Client().Get(ctx, w.q.jobs()+name)
	if err != nil {
		return err
	}
	return do(ctx, Job{Name: name, Content: file.Content})
}

// unlessOver is what Work is to end with because the end of a job could not be
// told: of a session that is over, that it is. That the job is somebody else's
// by now is none.
func unlessOver(s *client.Session, err error) error {
	switch {
	case err == nil || errors.Is(err, client.ErrPrecondition):
		return nil
	case s.Err() != nil:
		return s.Err()
	}
	return fmt.Errorf("recipe: the end of a job: %w", err)
}
