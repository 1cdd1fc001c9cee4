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

// Queue is a queue of jobs at a directory. A job is a file jobs/NAME below it;
// the names grow in the order of the additions. An ephemeral file taken/NAME
// marks a job in progress: if the worker dies, the job is free for others.
type Queue struct{ dir string }

// NewQueue returns the queue at dir, which ends in "/".
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

func (q Queue) jobs() string    { return q.dir + "jobs/" }
func (q Queue) running() string { return q.dir + "taken/" }

// Work takes one free job after another, the oldest first, and calls do for it,
// until ctx ends or the cell refuses. It has a session of its own, and opens
// another one when that ends. When do returns nil, the job is removed, unless
// another worker has taken it in the meantime. When do fails, the job is
// released; this worker leaves it to others for a second.
//
// The context of do ends as soon as the session cannot be relied upon: another
// worker may have the job then, and do must return. If a worker cannot report a
// finished job, the job is run again: do must tolerate that.
func (q Queue) Work(ctx context.Context, c *client.Client, do func(context.Context, Job) error, opts ...client.SessionOption) error {
	return inSessions(ctx, c, opts, func(s *client.Session) (bool, error) {
		open, end := whileOpen(ctx, s)
		defer end()
		w := worker{q: q, s: s, jobs: make(map[string]bool), running: make(map[string]bool), later: make(map[string]time.Time), news: make(chan struct{}, 1)}
		go w.follow(open)
		for open.Err() == nil {
			name, wait := w.next(time.Now())
			if name == "" {
				w.await(open, wait)
			} else if err := w.try(open, name, do); err != nil {
				return failed(ctx, s, err)
			}
		}
		return failed(ctx, s, context.Cause(open))
	})
}

// worker is one call of Work.
type worker struct {
	q    Queue
	s    *client.Session
	news chan struct{} // something has changed below

	mu      sync.Mutex           // guards what follows
	known   bool                 // all present files have been received
	jobs    map[string]bool      // by name: the present jobs
	running map[string]bool      // by name: the jobs in progress
	later   map[string]time.Time // by name: the time until which to skip the job
}

// follow keeps the lists of jobs up to date.
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

// begin clears the lists: files that have gone since are not reported again.
func (w *worker) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = false
	clear(w.jobs)
	clear(w.running)
}

func (w *worker) note(change *client.FileChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = w.known || change.Synced
	set := w.jobs
	name, isJob := strings.CutPrefix(change.Path, w.q.jobs())
	if !isJob {
		name, set = strings.TrimPrefix(change.Path, w.q.running()), w.running
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

// next returns the first job to try. If name is empty, no job is free; wait is
// then the time after which there may be one again, 0 for never.
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
		if _, leave := w.later[job]; w.known && !leave && !w.running[job] && (name == "" || job < name) {
			name = job
		}
	}
	return name, wait
}

// await waits for news, for at most wait unless that is 0.
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

// leave skips a job for a while.
func (w *worker) leave(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.later[name] = time.Now().Add(again)
}

// try takes a job and runs it. If another worker has it, try returns no error:
// the job is skipped until the events show that worker's file.
func (w *worker) try(ctx context.Context, name string, do func(context.Context, Job) error) error {
	job, mark := w.q.jobs()+name, w.q.running()+name
	created, err := w.s.Txn().
		If(client.WhenPresent(job), client.WhenAbsent(mark)).
		Then(client.OpCreate(mark, nil, client.Ephemeral())).
		Commit(ctx)
	if err != nil {
		return err
	}
	defer w.leave(name)
	if !created.Succeeded {
		return nil
	}
	revision := created.Results[0].File.Revision
	under, end := whileSafe(ctx, w.s)
	undone := w.do(under, name, do)
	end()
	ctx, cancel := outlast(ctx)
	defer cancel()
	if undone != nil {
		_, err = w.s.Delete(ctx, mark, client.IfRevision(revision))
		return unlessOver(w.s, err)
	}
	_, err = w.s.Txn().If(client.WhenRevision(mark, revision)).Then(client.OpDelete(job), client.OpDelete(mark)).Commit(ctx)
	return unlessOver(w.s, err)
}

// do runs a job that was taken. A separate call reads its content: the cell
// must remember what a session's transaction reads, and bounds that.
func (w *worker) do(ctx context.Context, name string, do func(context.Context, Job) error) error {
	file, err := w.s.Client().Get(ctx, w.q.jobs()+name)
	if err != nil {
		return err
	}
	return do(ctx, Job{Name: name, Content: file.Content})
}

// unlessOver returns Work's error when the end of a job could not be reported:
// the session's error if the session is over. It is nil if another worker has
// the job by now.
func unlessOver(s *client.Session, err error) error {
	switch {
	case err == nil || errors.Is(err, client.ErrPrecondition):
		return nil
	case s.Err() != nil:
		return s.Err()
	}
	return fmt.Errorf("recipe: the end of a job: %w", err)
}
