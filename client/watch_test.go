package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// audience records what a watch yields.
type audience struct {
	mu        sync.Mutex // guards the following
	revisions []uint64
	compacted []lockapi.Compacted
	err       error
}

// watchFor runs a watch in the background until the test ends.
func watchFor(t *testing.T, c *client.Client, after uint64, filters ...client.Filter) *audience {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w, done := new(audience), make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range c.Watch(ctx, after, filters...) {
			w.mu.Lock()
			switch {
			case err != nil:
				w.err = err
			case e.Compacted != nil:
				w.compacted = append(w.compacted, *e.Compacted)
			default:
				w.revisions = append(w.revisions, e.Revision)
			}
			w.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *audience) told() []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.revisions)
}

func (w *audience) over() ([]lockapi.Compacted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.compacted), w.err
}

// wantCompacted checks that a watch yielded Compacted n times and continues.
func wantCompacted(t *testing.T, w *audience, n int) {
	t.Helper()
	if compacted, err := w.over(); err != nil || len(compacted) != n {
		t.Errorf("compacted %+v, %v", compacted, err)
	}
}

func wantTold(t *testing.T, w *audience, want ...uint64) {
	t.Helper()
	synctest.Wait()
	if got := w.told(); !slices.Equal(got, want) {
		_, err := w.over()
		t.Fatalf("yielded %v, want %v (%v)", got, want, err)
	}
}

func TestWatch(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		first := tc.put("/a", "one")
		tc.put("/b", "one")
		all := watchFor(t, c, 0)
		later := watchFor(t, c, first)
		a := watchFor(t, c, 0, client.OnPath("/a"), client.OnPrefix("/app/"))
		gone := watchFor(t, c, 0, client.OfType(lockapi.EventFileDeleted))
		before := tc.revision()
		now := watchFor(t, c, client.FromNow, client.EventContents())
		time.Sleep(time.Second)
		tc.put("/app/x", "one")
		must(t, second(c.Delete(t.Context(), "/a")))
		time.Sleep(time.Minute)
		wantTold(t, all, tc.past(0, nil)...)
		wantTold(t, later, tc.past(first, nil)...)
		wantTold(t, a, tc.past(0, func(e lockapi.CellEvent) bool { return e.Path == "/a" || e.Path == "/app/x" || e.Path == "" })...)
		wantTold(t, gone, tc.past(0, func(e lockapi.CellEvent) bool { return e.Type == lockapi.EventFileDeleted || e.Path == "" })...)
		wantTold(t, now, tc.past(before, nil)...)
		if n := tc.streams(); n > 5 || len(all.told()) < 4 { // three for all types, one for one type, one with contents
			t.Errorf("%d streams began", n)
		}
	})
}

// An event carries its subject. The loop ends when the caller breaks it, or
// with the context.
func TestWatchTellsWhatHappened(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		first := tc.put("/a", "one")
		for e, err := range c.Watch(t.Context(), first-1, client.EventContents(), client.OnPath("/a")) {
			if err != nil || e.Type != lockapi.EventFileCreated || e.Path != "/a" || e.File == nil || *e.File.Content != "one" {
				t.Errorf("%+v, %v", e, err)
			}
			break
		}
		ctx := timeout(t, time.Minute)
		var last error
		for _, err := range c.Watch(ctx, tc.revision()) {
			last = err
		}
		wantErr(t, last, context.DeadlineExceeded)
		for _, bad := range []client.Filter{client.OnPath("a"), client.OnPrefix("a")} {
			for _, last = range c.Watch(ctx, 1, bad) {
			}
			wantErr(t, last, client.ErrInvalidArgument)
		}
	})
}

// Each event is yielded once and in order, through any failure.
func TestWatchResumes(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		all := watchFor(t, c, 0)
		odd := watchFor(t, c, 0, client.OnPrefix("/1/"))
		for i := range 300 {
			tc.put(fmt.Sprintf("/%d/x", i%2), "x")
			switch i % 50 {
			case 7:
				tc.breakConnections()
			case 20:
				if tc.Master() != "r2" {
					tc.Stop("r2") // it falls behind
				}
			case 25:
				tc.Elect([]string{"r1", "r3"}[i/50%2])
				tc.Start("r2")
				tc.breakConnections() // some continue at the replica that was behind
			case 35:
				tc.set(func() { tc.dead["r3"] = true })
				tc.breakConnections()
			case 45:
				tc.set(func() { tc.dead["r3"] = false })
			}
			time.Sleep(time.Duration(i%7) * 300 * time.Millisecond)
		}
		time.Sleep(5 * time.Minute)
		wantEqual(t, "events of the cell", len(tc.past(0, ofFile)), 300)
		wantTold(t, all, tc.past(0, nil)...)
		wantTold(t, odd, tc.past(0, func(e lockapi.CellEvent) bool { return e.Path == "/1/x" || e.Path == "" })...)
	})
}

// A write after the start of the loop is yielded, though the first stream
// begins late and breaks.
func TestWatchFromNowMissesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		tc.put("/a", "before")
		tc.insteadBy(mute)
		w := watchFor(t, c, client.FromNow)
		time.Sleep(time.Second)
		after := tc.put("/a", "after")
		time.Sleep(time.Second)
		tc.set(func() { tc.instead = nil })
		tc.breakConnections()
		time.Sleep(time.Minute)
		wantTold(t, w, after)
	})
}

// mute is a replica that sends nothing on a stream, not even its headers.
func mute(r *http.Request) *http.Response {
	if r.Header.Get("Accept") == lockapi.TypeEventStream {
		<-r.Context().Done()
		return response(http.StatusServiceUnavailable, "")
	}
	return nil
}

// A replica that has dropped the events is skipped for one that keeps them.
func TestWatchFindsWhoKeepsTheEvents(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		after := tc.put("/a", "x")
		for range 9 {
			tc.put("/a", "x")
		}
		tc.forget("r1", "r3")
		for range 10 {
			w := watchFor(t, c, after)
			time.Sleep(10 * time.Second)
			wantTold(t, w, tc.past(after, nil)...)
		}
	})
}

// If no replica keeps the events, the watch yields Compacted, and then the
// later events.
func TestWatchCompacted(t *testing.T) {
	for name, change := range map[string]func(*testCell){
		"all are well":       func(*testCell) {},
		"one can't be asked": func(tc *testCell) { tc.kill("r2") },
		"one hangs":          func(tc *testCell) { tc.isolate("r2", true) },
		"as JSON":            func(tc *testCell) { noStreams(tc) },
	} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			change(tc)
			after := tc.put("/a", "x")
			oldest := tc.put("/a", "x")
			tc.forget("r1", "r2", "r3")
			w := watchFor(t, c, after)
			time.Sleep(time.Minute)
			last := tc.put("/a", "x")
			time.Sleep(time.Minute)
			wantTold(t, w, last)
			if compacted, err := w.over(); err != nil || !slices.Equal(compacted, []lockapi.Compacted{{Oldest: oldest, Revision: oldest}}) {
				t.Errorf("compacted %+v, %v", compacted, err)
			}
		})
	}
}

// A stream that falls too far behind ends with compacted.
func TestWatchCompactedUnderWay(t *testing.T) {
	bubbleOf(t, stouttest.Options{Events: 8}, func(t *testing.T, tc *testCell, c *client.Client) {
		first := tc.put("/a", "x")
		var told []uint64
		compacted := 0
		for e, err := range c.Watch(t.Context(), first-1, client.OnPath("/a")) {
			switch {
			case err != nil:
				t.Fatal(err)
			case e.Compacted != nil:
				compacted++
				told = append(told, tc.put("/a", "last"))
			case len(told) > 0 && e.Revision == told[0]:
				if compacted != 1 {
					t.Errorf("Compacted came %d times", compacted)
				}
				return
			case e.Revision == first: // while the caller handles it
				for range 100 {
					tc.put("/a", "y")
				}
			}
		}
	})
}

// noStreams makes the replicas answer in JSON, even if the request accepts a
// stream.
func noStreams(tc *testCell) {
	tc.insteadBy(func(r *http.Request) *http.Response {
		if r.Header.Get("Accept") != lockapi.TypeEventStream {
			return nil
		}
		client.Sleep(r.Context(), tc.latency)
		return reply(http.StatusOK, lockapi.EventList{})
	})
}

// If streams are unsupported, or do not begin, the watch uses long polls.
func TestWatchByPolls(t *testing.T) {
	for name, change := range testrun.Table(t, 1, map[string]func(*testCell){
		"no streams": noStreams,
		"held up":    func(tc *testCell) { tc.insteadBy(mute) },
	}) {
		subBubble(t, name, func(t *testing.T, tc *testCell, _ *client.Client) {
			change(tc)
			c := tc.knowing(t, client.Config{}, tc.URLs()...)
			w := watchFor(t, c, 0)
			time.Sleep(time.Minute)
			for i := range 100 {
				tc.put("/a", "x")
				if i == 50 {
					tc.failOver("r2")
				}
				time.Sleep(time.Duration(i%5) * time.Second)
			}
			time.Sleep(2 * time.Minute)
			wantTold(t, w, tc.past(0, nil)...)
			calls := func(r sentRequest) bool { return !isLook(r) }
			before, looks := tc.count(calls), tc.count(isLook)
			time.Sleep(10 * time.Minute)
			wantAtMost(t, tc.count(calls)-before, 70, "requests in ten idle minutes")
			if n := tc.count(isLook) - looks; n < 8 || n > 20 { // every 30 to 60 s, and with the next answer to a poll
				t.Errorf("members were listed %d times in ten minutes", n)
			}
		})
	}
}

// A watch leaves a replica that hangs, in the middle of a stream or before it.
func TestWatchLeavesWhoIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		w := watchFor(t, c, 0)
		time.Sleep(time.Second)
		tc.isolate(tc.watched(), true)
		tc.put("/a", "x")
		time.Sleep(time.Minute)
		wantTold(t, w, tc.past(0, nil)...)
	})
}

// watched returns the replica of the last stream.
func (tc *testCell) watched() (host string) {
	for _, r := range tc.sent() {
		if r.path == lockapi.RouteEvents {
			host = r.host
		}
	}
	return host
}

// A watch leaves a replica that is cut off from the others: it sends no events,
// but reports that it has no master.
func TestWatchLeavesWhoIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		tc.put("/a", "x")
		var cut string
		before := tc.revision()
		idle := sse(lockapi.StreamBookmark, tc.revision(), lockapi.Bookmark{Revision: tc.revision()})
		tc.insteadBy(func(r *http.Request) *http.Response {
			if cut == "" && r.URL.Path == lockapi.RouteEvents {
				cut = r.URL.Host
			}
			if resp := lonely(cut)(r); resp != nil {
				return resp
			}
			if r.URL.Path != lockapi.RouteEvents || r.URL.Host != cut {
				return nil
			}
			body, w := io.Pipe()
			go func() {
				for r.Context().Err() == nil {
					client.Sleep(r.Context(), 10*time.Second)
					if _, err := io.WriteString(w, idle); err != nil {
						return
					}
				}
			}()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {lockapi.TypeEventStream}}, Body: body}
		})
		w := watchFor(t, c, 0)
		time.Sleep(time.Second)
		tc.put("/a", "x")
		time.Sleep(2 * time.Minute)
		wantTold(t, w, tc.past(before, nil)...)
	})
}

// Events that go back, are repeated or were not requested are not yielded. The
// watch leaves a replica that sends them. It ends when all replicas do.
func TestWatchRefusesLies(t *testing.T) {
	event := func(revision uint64, path string) lockapi.CellEvent {
		stat := lockapi.FileStat{Path: path, Revision: revision, Instance: 1, Generation: 2}
		return lockapi.CellEvent{Revision: revision, Type: lockapi.EventFileChanged, Path: path, File: &lockapi.File{FileStat: stat}}
	}
	good := sse("file_changed", 4, event(4, "/a"))
	for name, script := range testrun.Table(t, 4, map[string]string{
		"twice":                good + good,
		"back":                 good + sse("file_changed", 2, event(2, "/a")),
		"before the beginning": sse("file_changed", 3, event(3, "/a")),
		"another id":           sse("file_changed", 5, event(4, "/a")),
		"no id":                strings.Replace(good, "id: 4\n", "", 1),
		"another type":         sse("file_created", 4, event(4, "/a")),
		"another path":         sse("file_changed", 4, event(4, "/b")),
		"type not asked for":   sse("file_deleted", 4, lockapi.CellEvent{Revision: 4, Type: lockapi.EventFileDeleted, Path: "/a"}),
		"beyond all":           sse("file_changed", 1<<53, event(1<<53, "/a")),
		"no stat":              sse("file_changed", 4, lockapi.CellEvent{Revision: 4, Type: lockapi.EventFileChanged, Path: "/a"}),
		"a bookmark back":      good + sse("bookmark", 3, lockapi.Bookmark{Revision: 3}),
		"no JSON":              "id: 4\nevent: file_changed\ndata: {\n\n",
		"compacted in vain":    sse("compacted", 9, lockapi.Compacted{Oldest: 2, Revision: 9}),
		"compacted back":       sse("compacted", 2, lockapi.Compacted{Oldest: 4, Revision: 2}),
	}) {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			tc.script(script, "r1", "r2")
			w := watchFor(t, c, 3, client.OnPath("/a"), client.OfType(lockapi.EventFileChanged))
			time.Sleep(30 * time.Second)
			for range 4 {
				tc.put("/a", "x")
			}
			last := tc.put("/a", "x")
			time.Sleep(30 * time.Second)
			told := w.told()
			if got := slices.Compact(slices.Sorted(slices.Values(told))); !slices.Equal(got, told) {
				t.Errorf("yielded %v", told)
			}
			if told[len(told)-1] != last {
				t.Errorf("yielded %v", told)
			}
			tc.script(script)
			if strings.HasPrefix(script, good) {
				return // each begins with a true event
			}
			before := tc.streams()
			w = watchFor(t, tc.client(t), 3, client.OnPath("/a"), client.OfType(lockapi.EventFileChanged))
			time.Sleep(30 * time.Second)
			wantErr(t, second(w.over()), client.ErrInternal)
			wantTold(t, w)
			wantEqual(t, "streams began", tc.streams()-before, 3)
		})
	}
}

// A refusal ends the watch. Exhausted streams at one replica do not.
func TestWatchRefused(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		tc.put("/a", "x")
		var limit atomic.Int64
		refuseWith := func(code lockapi.Code) {
			tc.insteadBy(func(r *http.Request) *http.Response {
				if r.URL.Path != lockapi.RouteEvents || limit.Add(-1) < 0 {
					return nil
				}
				return refusal(lockapi.Errorf(code, "no"))
			})
		}
		for code, most := range map[lockapi.Code]int64{client.ErrInvalidArgument: 1, client.ErrTooMany: 3, client.ErrInternal: 3} {
			limit.Store(most)
			refuseWith(code)
			w := watchFor(t, c, 0)
			time.Sleep(time.Minute)
			wantErr(t, second(w.over()), code)
		}
		for _, code := range []lockapi.Code{client.ErrTooMany, client.ErrInternal} {
			limit.Store(2)
			refuseWith(code)
			w := watchFor(t, c, 0)
			time.Sleep(time.Minute)
			wantTold(t, w, tc.past(0, nil)...)
		}
		limit.Store(1000)
		refuseWith(client.ErrNoMaster)
		w := watchFor(t, c, 0)
		time.Sleep(time.Minute)
		wantAtMost(t, 1000-limit.Load(), 200, "requests in a minute")
		limit.Store(0)
		time.Sleep(time.Minute)
		wantTold(t, w, tc.past(0, nil)...)
	})
}

// Watchers of a replica that dies do not all reconnect at the same instant.
func TestWatchersComeBackOneByOne(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		for range 50 {
			watchFor(t, c, 0)
		}
		time.Sleep(time.Second)
		before := len(tc.sent())
		tc.breakConnections()
		time.Sleep(10 * time.Second)
		at := map[time.Duration]int{}
		for _, r := range tc.sent()[before:] {
			at[r.at.Truncate(time.Millisecond)]++
		}
		for when, n := range at {
			if n > 25 {
				t.Errorf("%d reconnect at %s", n, when)
			}
		}
	})
}
