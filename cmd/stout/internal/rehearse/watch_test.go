package rehearse

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// A watcher with slow listings pauses nine times as long, and counts the time
// left from the start of each listing.
func TestWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		const takes = 100 * time.Millisecond
		var lists atomic.Int32
		var fails atomic.Bool
		w := &watcher{begun: begun, but: []string{"own"}, ends: map[string]time.Duration{}}
		w.list = func(context.Context) iter.Seq2[lockapi.SessionState, error] {
			return func(yield func(lockapi.SessionState, error) bool) {
				lists.Add(1)
				time.Sleep(takes)
				if fails.Load() {
					yield(lockapi.SessionState{}, errors.New("no master"))
					return
				}
				_ = yield(session("own", time.Minute, time.Minute), nil) && yield(session("a", time.Minute, 5*time.Second), nil)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.run(ctx); close(done) }()
		time.Sleep(10*time.Second - 1)
		if n := lists.Load(); n != 10 {
			t.Errorf("%d listings in 10 s, each of %v: want a tenth of the time", n, takes)
		}
		ends, before := w.freeze()
		if len(ends) != 1 || ends["a"] != 14*time.Second || len(before.Sessions) != 1 {
			t.Errorf("ends %v, sessions %v; want a until 14s", ends, before.Sessions)
		}
		fails.Store(true)
		time.Sleep(5 * time.Second)
		if w.last().Begun != before.Begun {
			t.Error("a listing that failed counts as a sighting")
		}
		fails.Store(false)
		time.Sleep(5 * time.Second)
		if after := w.last(); after.Begun <= before.Begun || ends["a"] != 14*time.Second {
			t.Errorf("after the change: %v, ends %v", after.Begun, ends)
		}
		cancel()
		<-done
	})
}
