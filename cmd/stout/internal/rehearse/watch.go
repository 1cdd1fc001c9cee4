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

// Listing is one listing of all sessions.
type Listing struct {
	Begun, Ended time.Duration
	Sessions     map[string]lockapi.SessionState
}

// watcher lists the sessions repeatedly. It uses at most a tenth of the time
// for that, because a listing of thousands is expensive.
type watcher struct {
	list  func(context.Context) iter.Seq2[lockapi.SessionState, error]
	begun time.Time
	but   []string // omitted sessions

	mu sync.Mutex
	// ends has, for each session, until when it certainly lives, from listings
	// before the change; latest is the last listing.
	ends   map[string]time.Duration
	latest Listing
	frozen time.Duration // when the change was about to be made; 0 before
}

// rest is the shortest pause of a watcher.
const rest = 200 * time.Millisecond

func newWatcher(c *client.Client, begun time.Time, but ...string) *watcher {
	return &watcher{
		list:  func(ctx context.Context) iter.Seq2[lockapi.SessionState, error] { return c.ListSessions(ctx) },
		begun: begun, but: but, ends: make(map[string]time.Duration),
	}
}

// look lists the sessions once. The time left was true at some instant of the
// listing, so it counts from its beginning.
func (w *watcher) look(ctx context.Context) error {
	s := Listing{Begun: time.Since(w.begun), Sessions: make(map[string]lockapi.SessionState)}
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
		return nil // it may be from before or after the change
	}
	if w.latest = s; w.frozen == 0 {
		maps.DeleteFunc(w.ends, func(id string, _ time.Duration) bool { _, lives := s.Sessions[id]; return !lives })
		for id, one := range s.Sessions {
			w.ends[id] = max(w.ends[id], s.Begun+leftOf(one))
		}
	}
	return nil
}

// freeze ends the observation before the change, and returns the ends of the
// sessions and the last listing.
func (w *watcher) freeze() (map[string]time.Duration, Listing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = time.Since(w.begun)
	return w.ends, w.latest
}

// last returns the last listing.
func (w *watcher) last() Listing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// run lists sessions until ctx ends.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		_ = w.look(ctx) // there may be no master at that moment
		_ = pause(ctx, max(rest, 9*time.Since(begun)))
	}
}
