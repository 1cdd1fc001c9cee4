package server_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// fakeRing is the events of a fake replica, the oldest first, whatever is asked for.
type fakeRing struct {
	events  []lockapi.CellEvent
	oldest  uint64
	reached uint64
	watches map[*fakeWatch]bool
}

// happened tells of a change with the next revision.
func (f *fakeMaster) happened(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ring.reached++
	f.revision = max(f.revision, f.ring.reached)
	f.ring.events = append(f.ring.events, lockapi.CellEvent{Revision: f.ring.reached, Type: lockapi.EventFileCreated, Path: path,
		File: &lockapi.File{FileStat: lockapi.FileStat{Path: path, Revision: f.ring.reached, Instance: f.ring.reached, Generation: 1, SHA256: fmt.Sprintf("%064x", 0)}}})
	f.ring.wake()
}

// drop forgets the events up to a revision.
func (f *fakeMaster) drop(oldest uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ring.oldest = oldest
	f.ring.wake()
}

func (r *fakeRing) wake() {
	for w := range r.watches {
		select {
		case w.ready <- struct{}{}:
		default:
		}
	}
}

// fakeWatch wakes its reader for whatever happens.
type fakeWatch struct {
	f     *fakeMaster
	ready chan struct{}
}

func (f *fakeMaster) WatchEvents(master.EventFilter) (master.EventWatch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ring.watches == nil {
		f.ring.watches = map[*fakeWatch]bool{}
	}
	w := &fakeWatch{f, make(chan struct{}, 1)}
	f.ring.watches[w] = true
	return w, nil
}

func (w *fakeWatch) Ready() <-chan struct{} { return w.ready }

func (w *fakeWatch) Close() {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	delete(w.f.ring.watches, w)
}

func (w *fakeWatch) Bounds() (oldest, told uint64) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	return w.f.ring.oldest, w.f.ring.reached
}

func (w *fakeWatch) Read(after uint64, limit, bytes int) ([]lockapi.CellEvent, uint64, error) {
	return w.f.Events(master.EventFilter{}, after, limit, bytes)
}

func (f *fakeMaster) Revision(ctx context.Context, r *master.Read) (uint64, error) {
	if err := f.enter(ctx, "revision", r.Stale); err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	return f.revision, nil
}

func (f *fakeMaster) Events(_ master.EventFilter, after uint64, limit, _ int) ([]lockapi.CellEvent, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after < f.ring.oldest {
		e := lockapi.Errorf(lockapi.CodeCompacted, "gone")
		e.Compacted = lockapi.Compacted{Oldest: f.ring.oldest, Revision: f.ring.reached}
		return nil, after, e
	}
	found := []lockapi.CellEvent{}
	for _, e := range f.ring.events {
		if e.Revision > after && len(found) < limit {
			found = append(found, e)
		}
	}
	if len(found) == limit {
		return found, found[limit-1].Revision, nil
	}
	return found, max(after, f.ring.reached), nil
}

// History is the fake ring's, newest first.
func (f *fakeMaster) History(_ context.Context, q *lockapi.GetHistory) (lockapi.History, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := lockapi.History{Path: q.Path, Events: []lockapi.PastEvent{}, Oldest: f.ring.oldest, Revision: f.ring.reached}
	for _, e := range slices.Backward(f.ring.events) {
		if e.Path == q.Path && len(out.Events) < q.Limit {
			out.Events = append(out.Events, lockapi.PastEvent{Revision: e.Revision, Type: e.Type, Path: e.Path, At: time.Unix(1, 0)})
		}
	}
	return out, nil
}
