package rehearse

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Sighting is all sessions as one listing had them.
type Sighting struct {
	Begun, Ended time.Duration
	Sessions     map[string]lockapi.SessionState
}

// watcher lists the sessions again and again, and takes a tenth of the time for
// it at most: with thousands a listing is no small thing.
type watcher struct {
	list  func(context.Context) iter.Seq2[lockapi.SessionState, error]
	begun time.Time
	but   []string // sessions that are left out

	mu sync.Mutex
	// ends is until when each session is good for certain, by what was seen before
	// the change, and latest the last sighting.
	ends   map[string]time.Duration
	latest Sighting
	frozen time.Duration // when the change was about to be made; 0 before
}

// rest is how long a watcher pauses at least.
const rest = 200 * time.Millisecond

func newWatcher(c *client.Client, begun time.Time, but ...string) *watcher {
	return &watcher{
		list:  func(ctx context.Context) iter.Seq2[lockapi.SessionState, error] { return c.ListSessions(ctx) },
		begun: begun, but: but, ends: make(map[string]time.Duration),
	}
}

// look lists the sessions once. What is left of one was so at some instant of the
// listing, so that it is good at least from its beginning on.
func (w *watcher) look(ctx context.Context) error {
	s := Sighting{Begun: time.Since(w.begun), Sessions: make(map[string]lockapi.SessionState)}
	for one, err := range w.list(ctx) {
		if err != nil {
			return err
		}
		if !slices.Contains(w.but, one.ID) {
			s.Sessions[one.ID] = one
		}
	}
	s.Ended = time.Since(w.begun)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen > 0 && s.Begun < w.frozen {
		return nil // it may be of either side
	}
	if w.latest = s; w.frozen == 0 {
		maps.DeleteFunc(w.ends, func(id string, _ time.Duration) bool { _, lives := s.Sessions[id]; return !lives })
		for id, one := range s.Sessions {
			w.ends[id] = max(w.ends[id], s.Begun+leftOf(one))
		}
	}
	return nil
}

// freeze has what was seen until now be the state before the change, and returns
// that: the ends of the sessions, and the last sighting.
func (w *watcher) freeze() (map[string]time.Duration, Sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = time.Since(w.begun)
	return w.ends, w.latest
}

// last is the last sighting.
func (w *watcher) last() Sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// run looks until ctx ends.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		_ = w.look(ctx) // there may be no master just then
		_ = pause(ctx, max(rest, 9*time.Since(begun)))
	}
}
