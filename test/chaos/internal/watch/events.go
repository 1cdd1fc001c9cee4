package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/history"
)

// Events are watchers of a cell's events. Each replica has one with a stream
// and one with waiting calls; both stay with it through all faults. One watcher
// of the SDK moves to replicas that serve it.
type Events struct {
	watchers []*watcher
	sdk      *client.Client
}

// watcher is one watcher. It resumes after the last revision that it received.
type watcher struct {
	// listen passes the events after a revision to w, until the stream or call
	// ends.
	listen func(ctx context.Context, after uint64, w *watcher) error

	mu   sync.Mutex // guards seen
	seen history.Told
}

// NewEvents makes the watchers, without events so far.
func NewEvents(c *cell.Cell) (*Events, error) {
	sdk, err := client.Config{URLs: c.URLs()}.New()
	if err != nil {
		return nil, err
	}
	e := &Events{sdk: sdk}
	add := func(name string, listen func(context.Context, uint64, *watcher) error) {
		e.watchers = append(e.watchers, &watcher{listen: listen, seen: history.Told{Watcher: name}})
	}
	for _, r := range c.Replicas() {
		add("the stream of "+r.ID, streamOf(r.URL))
		add("the caller of "+r.ID, pollsOf(r.URL))
	}
	add("the SDK's watch", e.watch)
	return e, nil
}

// Close ends the SDK's connections.
func (e *Events) Close() { _ = e.sdk.Close() }

// Follow makes all watchers follow the events, from the first on, until ctx
// ends.
func (e *Events) Follow(ctx context.Context) {
	var following sync.WaitGroup
	for _, w := range e.watchers {
		following.Go(func() {
			for ctx.Err() == nil {
				_ = w.listen(ctx, w.upTo(), w) // resume after any error
				cell.Pause(ctx, 50*time.Millisecond)
			}
		})
	}
	following.Wait()
}

// Reach waits until every watcher has received everything up to a revision.
func (e *Events) Reach(ctx context.Context, revision uint64) error {
	return cell.Wait(ctx, fmt.Sprintf("every watcher has all events up to revision %d", revision), func(context.Context) error {
		var errs []error
		for _, w := range e.watchers {
			if at := w.upTo(); at < revision {
				errs = append(errs, fmt.Errorf("%s is at %d", w.seen.Watcher, at))
			}
		}
		return errors.Join(errs...)
	})
}

// Received returns the events that each watcher has received so far.
func (e *Events) Received() (all []history.Told) {
	for _, w := range e.watchers {
		w.mu.Lock()
		all = append(all, w.seen)
		w.mu.Unlock()
	}
	return all
}

func (w *watcher) upTo() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.UpTo
}

// record adds an event, correct or not.
func (w *watcher) record(e lockapi.CellEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Events = append(w.seen.Events, e)
	w.seen.UpTo = max(w.seen.UpTo, e.Revision)
}

// reach records that all events up to a revision were received.
func (w *watcher) reach(revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.UpTo = max(w.seen.UpTo, revision)
}

// miss records that the next events up to a revision are compacted.
func (w *watcher) miss(c lockapi.Compacted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Revision <= w.seen.UpTo {
		return
	}
	w.seen.Missed = append(w.seen.Missed, history.Span{After: w.seen.UpTo, UpTo: c.Revision})
	w.seen.UpTo = c.Revision
}

// watch follows with the SDK, which resumes by itself.
func (e *Events) watch(ctx context.Context, after uint64, w *watcher) error {
	for event, err := range e.sdk.Watch(ctx, after) {
		switch {
		case err != nil:
			return err
		case event.Compacted != nil:
			w.miss(*event.Compacted)
		default:
			w.record(event.CellEvent)
		}
	}
	return nil
}
