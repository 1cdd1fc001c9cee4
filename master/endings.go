package master

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/stoutlock/stout/replica/state"
)

// mostEnding bounds how many holds, waits and files may go by the session ends
// proposed at a time, and by the deletions of directories. One end frees all
// locks of its session in one step, at about 10 µs each. Entries with many such
// ends would delay everything else in the log, including the renewal of the
// lease. A session or a directory with more goes alone.
const mostEnding = 2_000

// endings are the session ends, or deletions, under way and the waiting ones, first
// come, first served. The mutex guards both; no other mutex is taken under it.
type endings struct {
	mu    sync.Mutex
	items int64 // and files: what goes with the ends under way
	queue []*ending
}

// ending is a session end that waits.
type ending struct {
	items int64
	turn  chan struct{} // closed when it may be proposed
}

// begin queues a session's end, which may be proposed when the turn channel of
// the result is closed. The caller must then call finish.
func (e *endings) begin(items int64) *ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := &ending{items: items, turn: make(chan struct{})}
	e.queue = append(e.queue, next)
	e.admit()
	return next
}

// finish records that an end is no longer under way; one may be nil.
func (e *endings) finish(one *ending) {
	if one == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.items -= one.items
	e.admit()
}

// admit closes the turn channels of the ends that fit in. e.mu is held.
func (e *endings) admit() {
	for len(e.queue) > 0 && (e.items == 0 || e.items+e.queue[0].items <= mostEnding) {
		e.items += e.queue[0].items
		close(e.queue[0].turn)
		e.queue[0] = nil
		e.queue = e.queue[1:]
	}
}

// leave is finish for an end that may still wait.
func (e *endings) leave(one *ending) {
	e.mu.Lock()
	if i := slices.Index(e.queue, one); i >= 0 {
		e.queue = slices.Delete(e.queue, i, i+1)
		one.items = 0
	}
	e.mu.Unlock()
	e.finish(one)
}

// wait queues an end and waits for its turn, unless ctx ends or done is closed
// first. The caller must then call finish.
func (e *endings) wait(ctx context.Context, items int64, done <-chan struct{}) (*ending, error) {
	next := e.begin(items)
	select {
	case <-next.turn:
		return next, nil
	case <-ctx.Done():
		e.leave(next)
		return nil, errNoMaster("the caller has gone")
	case <-done:
		return nil, errNoMaster("mastership was lost before the call took effect")
	}
}

// turnToDelete waits until the files below some prefixes may be deleted, and checks
// the caller's rights again. It returns nil if there are no files.
func (o *office) turnToDelete(ctx context.Context, by *Caller, prefixes []string) (*ending, error) {
	var files int64
	for _, p := range prefixes {
		files += upTo(mostEnding, o.log.State().Files(p, ""))
	}
	if files == 0 {
		return nil, nil
	}
	turn, err := o.deletions.wait(ctx, files, o.done)
	if err != nil {
		return nil, err
	}
	if err := o.authorize(by); err != nil {
		o.deletions.finish(turn)
		return nil, err
	}
	return turn, nil
}

// upTo counts files, but not further than most.
func upTo(most int64, files iter.Seq[*state.File]) (n int64) {
	for range files {
		if n++; n == most {
			break
		}
	}
	return n
}
