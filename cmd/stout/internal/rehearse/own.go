package rehearse

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
)

// own is the rehearsal's own part of the cell: a session that holds a lock, and
// one with waiters for it that also makes calls with the SDK, like a program.
type own struct {
	c              *client.Client
	path           string
	holder, waiter *client.Session
	held           *client.Held
	queue          []string // handles, in queue order
	leave          context.CancelFunc
	waiting        sync.WaitGroup

	mu       sync.Mutex
	jeopardy bool
	calls    int
	failed   int
	slowest  time.Duration
}

const (
	ownWaiters = 3
	ownEvery   = 50 * time.Millisecond
	ownCall    = 10 * time.Second
)

// openOwn opens the sessions, takes the lock, and queues the waiters. The
// result must be closed even with an error.
func openOwn(ctx context.Context, c *client.Client, path string) (*own, error) {
	o := &own{c: c, path: path, leave: func() {}}
	var err error
	if o.holder, err = c.NewSession(ctx, client.Name("rehearsal of a fail-over (holder)")); err != nil {
		return o, err
	}
	if o.waiter, err = c.NewSession(ctx, client.Name("rehearsal of a fail-over (waiters)")); err != nil {
		return o, err
	}
	if o.held, err = o.holder.TryLock(ctx, path+"/held"); err != nil {
		return o, err
	}
	var waiting context.Context
	waiting, o.leave = context.WithCancel(context.WithoutCancel(ctx))
	refused := make(chan error, ownWaiters)
	for n := range ownWaiters {
		o.waiting.Go(func() {
			h, err := o.waiter.Lock(waiting, path+"/held")
			if err != nil {
				refused <- err
				return
			}
			_ = h.Unlock(waiting) // the lost lock before it is reported
		})
		for len(o.queue) <= n {
			if o.queue, err = o.places(ctx); err != nil {
				return o, err
			}
			select {
			case err := <-refused:
				return o, fmt.Errorf("wait for %s/held: %w", path, err)
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return o, ctx.Err()
			}
		}
	}
	return o, nil
}

// places returns the handles of the waiters, in queue order.
func (o *own) places(ctx context.Context) (handles []string, err error) {
	l, err := o.c.ReadLock(ctx, o.path+"/held", client.Waiters(2*ownWaiters))
	for _, w := range l.Queue {
		if w.Session == o.waiter.ID() {
			handles = append(handles, w.Handle)
		}
	}
	return handles, err
}

// work makes calls until ctx ends, and records whether a session is not safe.
func (o *own) work(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		for ask.Sleep(ctx, ownEvery) == nil {
			o.mu.Lock()
			o.jeopardy = o.jeopardy || o.holder.State() != client.Safe || o.waiter.State() != client.Safe
			o.mu.Unlock()
		}
	})
	for ask.Sleep(ctx, ownEvery) == nil {
		o.call(ctx)
	}
}

// call takes a lock and releases it, measured together: the change may affect
// either half.
func (o *own) call(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, ownCall)
	defer cancel()
	begun := time.Now()
	h, err := o.waiter.TryLock(within, o.path+"/app")
	if err == nil {
		err = h.Unlock(within)
	}
	took := time.Since(begun)
	if ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls++; err != nil {
		o.failed++
	}
	o.slowest = max(o.slowest, took)
}

// outcome returns what became of it; with an error, everything but the waiters.
func (o *own) outcome(ctx context.Context) (Own, error) {
	after, err := o.places(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	out := Own{
		Jeopardy: o.jeopardy, Expired: o.holder.Err() != nil || o.waiter.Err() != nil, LockKept: o.held.Err() == nil,
		Calls: o.calls, Failed: o.failed, Slowest: toMS(o.slowest),
	}
	if err != nil {
		return out, fmt.Errorf("the queue positions of its own waiters could not be read at the end: %w", err)
	}
	out.Waiters = len(o.queue)
	for i, handle := range o.queue {
		if i == slices.Index(after, handle) {
			out.InOrder++
		}
	}
	return out, nil
}

// cleanUp limits the time to remove everything. The sessions expire if the cell
// cannot be reached.
const cleanUp = 5 * time.Second

// close removes everything, even after ctx has ended.
func (o *own) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	var err error
	for _, s := range []*client.Session{o.waiter, o.holder} {
		if s == nil {
			continue
		}
		if s == o.waiter {
			o.leave()
		}
		if closing := s.Close(ctx); err == nil {
			err = closing
		}
	}
	o.leave()
	o.waiting.Wait()
	return err
}
