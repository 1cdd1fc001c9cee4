package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// lastStream returns the query of the stream that began last.
func (tc *testCell) lastStream() (query url.Values) {
	for _, r := range tc.sent() {
		if r.header.Get("Accept") == lockapi.TypeEventStream {
			query, _ = url.ParseQuery(r.query)
		}
	}
	return query
}

// ofPath keeps the events of a path, and changes of master.
func ofPath(path string) func(lockapi.CellEvent) bool {
	return func(e lockapi.CellEvent) bool { return e.Path == path || e.Path == "" }
}

// Fifty watches that begin together need three streams, the last of which they
// share. A watch at a path that the stream has needs no other, and one at a
// new path continues at the revision reached.
func TestWatchesShareAStream(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		after := tc.put("/0", "x")
		var all []*audience
		for i := range 50 {
			all = append(all, watchFor(t, c, after, client.OnPath(fmt.Sprintf("/%d", i))))
		}
		for range 3 {
			for i := range all {
				tc.put(fmt.Sprintf("/%d", i), "x")
			}
		}
		time.Sleep(time.Second)
		for i, w := range all {
			wantTold(t, w, tc.past(after, ofPath(fmt.Sprintf("/%d", i)))...)
		}
		began := tc.streams()
		if began > 3 {
			t.Errorf("%d streams began", began)
		}
		same := watchFor(t, c, tc.revision(), client.OnPath("/7"))
		time.Sleep(time.Second)
		now := tc.put("/7", "x")
		time.Sleep(time.Second)
		wantTold(t, same, now)
		wantEqual(t, "streams began", tc.streams(), began)
		watchFor(t, c, tc.revision(), client.OnPath("/new"))
		time.Sleep(time.Second)
		if n, q := tc.streams(), tc.lastStream(); n != began+1 || q.Get("after") != fmt.Sprint(now) || len(q["path"]) != 51 {
			t.Errorf("%d streams began, the last with %v", n, q)
		}
	})
}

// Watches that join, leave, handle events slowly and begin at any revision get
// what they would get alone, through any failure.
func TestSharedWatchesAgainstSingle(t *testing.T) {
	for _, seed := range testrun.Sample(t, 3, 100) {
		subBubble(t, fmt.Sprint(seed), func(t *testing.T, tc *testCell, c *client.Client) {
			r := rand.New(rand.NewPCG(uint64(seed), 1))
			tc.set(func() { tc.latency = time.Millisecond })
			type single struct {
				*audience
				after uint64
				names string
				leave context.CancelFunc
				upTo  uint64 // its revision when it left
			}
			var all []*single
			last := tc.put("/a/0", "x")
			begin := func() {
				w := &single{audience: new(audience), after: last - uint64(r.IntN(int(last))), names: []string{"/", "/a/", "/b/", "/a/1", "/b/2"}[r.IntN(5)]}
				slow := time.Duration(max(0, r.IntN(8)-5)) * 40 * time.Millisecond
				ctx, leave := context.WithCancel(t.Context())
				done := make(chan struct{})
				w.leave = func() { leave(); <-done }
				t.Cleanup(w.leave)
				go func() {
					defer close(done)
					for e, err := range c.Watch(ctx, w.after, client.OnPrefix(w.names)) {
						w.mu.Lock()
						if err == nil && e.Compacted == nil {
							w.revisions = append(w.revisions, e.Revision)
						} else if err == nil {
							w.compacted = append(w.compacted, *e.Compacted)
						}
						w.mu.Unlock()
						client.Sleep(ctx, slow)
					}
				}()
				all = append(all, w)
			}
			for range 400 {
				switch n := r.IntN(40); {
				case n == 0 && len(all) > 0:
					if w := all[r.IntN(len(all))]; w.upTo == 0 {
						w.leave()
						w.upTo = last
					}
				case n < 4:
					begin()
				case n == 4:
					tc.breakConnections()
				case n == 5:
					tc.Elect([]string{"r1", "r2", "r3"}[r.IntN(3)])
				case n == 6:
					time.Sleep(time.Duration(r.IntN(20000)) * time.Millisecond)
				default:
					last = tc.put(fmt.Sprintf("/%c/%d", 'a'+rune(r.IntN(2)), r.IntN(4)), "x")
				}
			}
			time.Sleep(10 * time.Minute)
			for i, w := range all {
				want := tc.past(w.after, func(e lockapi.CellEvent) bool { return e.Path == "" || strings.HasPrefix(e.Path, w.names) })
				got := w.told()
				if w.upTo != 0 && len(got) <= len(want) {
					want = want[:len(got)]
				}
				if compacted, _ := w.over(); !slices.Equal(got, want) || compacted != nil {
					t.Errorf("watch %d after %d at %s: %v instead of %v, %v", i, w.after, w.names, got, want, compacted)
				}
			}
		})
	}
}

// A watch that handles an event for long does not delay the others. It gets
// everything later.
func TestSlowWatchDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		before := tc.revision()
		quick := watchFor(t, c, before, client.OnPath("/a"))
		var slow []uint64
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for e := range c.Watch(ctx, before, client.OnPath("/a")) {
				if slow = append(slow, e.Revision); len(slow) == 1 {
					time.Sleep(time.Hour)
				}
			}
		}()
		time.Sleep(time.Second)
		began := tc.streams()
		for range 900 {
			tc.put("/a", "x")
		}
		time.Sleep(time.Second)
		wantTold(t, quick, tc.past(before, nil)...)
		wantEqual(t, "streams began", tc.streams(), began)
		time.Sleep(2 * time.Hour)
		tc.put("/a", "x")
		time.Sleep(time.Second)
		stop()
		<-ended
		if slow = slow[:len(slow)-1]; !slices.Equal(slow, quick.told()) { // the last is the error
			t.Errorf("the slow watch got %d events, the other %d", len(slow), len(quick.told()))
		}
	})
}

// Contents that wait for a slow watch are bounded.
func TestSlowWatchKeepsFewContents(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		handle := make(chan struct{})
		got := make(chan uint64, 100)
		quick := watchFor(t, c, tc.revision(), client.EventContents())
		go func() {
			for e, err := range c.Watch(t.Context(), tc.revision(), client.OnPrefix("/"), client.EventContents()) {
				if err != nil {
					return
				}
				<-handle
				got <- e.Revision
			}
		}()
		time.Sleep(time.Second)
		for i := range 20 {
			tc.put(fmt.Sprintf("/%d", i), strings.Repeat("x", 200<<10))
		}
		time.Sleep(time.Minute)
		if n := tc.polls(); n != 0 || len(quick.told()) != 20 {
			t.Errorf("%d calls for old events; the other got %d events", n, len(quick.told()))
		}
		close(handle)
		time.Sleep(time.Minute)
		if len(got) != 20 || tc.polls() == 0 {
			t.Errorf("%d events, %d calls for old events", len(got), tc.polls())
		}
	})
}

// forbid refuses requests for the events of a path.
func (tc *testCell) forbid(path string) {
	tc.insteadBy(func(r *http.Request) *http.Response {
		if slices.Contains(r.URL.Query()["path"], path) {
			return refusal(lockapi.Errorf(lockapi.CodePermissionDenied, "no"))
		}
		return nil
	})
}

// polls counts the calls for old events.
func (tc *testCell) polls() int {
	return tc.count(func(r sentRequest) bool { return strings.Contains(r.query, "limit=1000") })
}

// A watch that is refused ends alone. The others keep their stream's revision
// and share a stream again.
func TestRefusedWatchEndsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		tc.forbid("/secret")
		before := tc.revision()
		a, b := watchFor(t, c, before, client.OnPath("/a")), watchFor(t, c, before, client.OnPath("/b"))
		time.Sleep(time.Minute)
		secret := watchFor(t, c, before, client.OnPath("/secret"))
		for range 20 {
			tc.put("/a", "x")
			tc.put("/b", "x")
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		wantErr(t, second(secret.over()), client.ErrPermissionDenied)
		wantTold(t, a, tc.past(before, ofPath("/a"))...)
		wantTold(t, b, tc.past(before, ofPath("/b"))...)
		if q := tc.lastStream(); !slices.Equal(q["path"], []string{"/a", "/b"}) && !slices.Equal(q["path"], []string{"/secret"}) {
			t.Errorf("the last stream is for %v", q)
		}
	})
}

// The same holds for watches that share calls that wait.
func TestRefusedWatchEndsAloneByPolls(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		tc.insteadBy(func(r *http.Request) *http.Response {
			switch {
			case slices.Contains(r.URL.Query()["path"], "/secret"):
				return refusal(lockapi.Errorf(lockapi.CodePermissionDenied, "no"))
			case r.Header.Get("Accept") == lockapi.TypeEventStream:
				client.Sleep(r.Context(), tc.latency)
				return reply(http.StatusOK, lockapi.EventList{})
			}
			return nil
		})
		before := tc.revision()
		a, b := watchFor(t, c, before, client.OnPath("/a")), watchFor(t, c, before, client.OnPath("/b"))
		time.Sleep(time.Minute)
		secret := watchFor(t, c, before, client.OnPath("/secret"))
		time.Sleep(3 * time.Minute)
		wantErr(t, second(secret.over()), client.ErrPermissionDenied)
		tc.put("/a", "x")
		tc.put("/b", "x")
		time.Sleep(time.Minute)
		wantTold(t, a, tc.past(before, ofPath("/a"))...)
		wantTold(t, b, tc.past(before, ofPath("/b"))...)
		var last []string
		for _, r := range tc.sent() {
			if query, _ := url.ParseQuery(r.query); query.Get("wait_ms") != "" {
				last = query["path"]
			}
		}
		if slices.Sort(last); !slices.Equal(last, []string{"/a", "/b"}) {
			t.Errorf("the last call that waits is for %v", last)
		}
	})
}

// A refusal that concerns the stream of several watches ends each of them by
// its own request.
func TestRefusedWatchesAskByThemselves(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		before := tc.revision()
		a, b := watchFor(t, c, before, client.OnPath("/a")), watchFor(t, c, before, client.OnPath("/b"))
		time.Sleep(time.Minute)
		tc.forbid("/b")
		tc.breakConnections()
		time.Sleep(time.Minute)
		tc.put("/a", "x")
		time.Sleep(time.Minute)
		wantErr(t, second(b.over()), client.ErrPermissionDenied)
		wantTold(t, a, tc.past(before, ofPath("/a"))...)
	})
}

// A watch after events that are no longer kept learns that alone: the stream of
// the others continues.
func TestCompactedWatchDelaysNoOther(t *testing.T) {
	bubbleOf(t, stouttest.Options{Events: 100}, func(t *testing.T, tc *testCell, c *client.Client) {
		first := tc.revision()
		all := watchFor(t, c, first)
		for range 500 {
			tc.put("/a", "x")
		}
		time.Sleep(time.Minute)
		old := watchFor(t, c, first)
		time.Sleep(time.Minute)
		if n := tc.polls(); n != 4 || tc.streams() > 3 { // one at each replica, and one after the gap
			t.Errorf("%d calls for old events, %d streams", n, tc.streams())
		}
		wantCompacted(t, old, 1)
		now := tc.put("/a", "x")
		time.Sleep(time.Second)
		wantTold(t, old, now)
		compacted, _ := all.over()
		if got := all.told(); len(got) != 501 || got[500] != now || compacted != nil {
			t.Errorf("the other got %d events, %v; %d streams began", len(got), compacted, tc.streams())
		}
	})
}

// A gap of one watch is none of another that has received more than the replicas
// have reached: it would go back.
func TestGapOfOneWatchMovesNoOtherBack(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		first := tc.put("/a", "x")
		behind := tc.put("/a", "x")
		now := tc.put("/a", "x")
		tc.insteadBy(func(q *http.Request) *http.Response {
			after, err := strconv.ParseUint(q.URL.Query().Get("after"), 10, 64)
			if q.URL.Path != lockapi.RouteEvents || err != nil || after >= behind {
				return nil
			}
			e := lockapi.Errorf(lockapi.CodeCompacted, "not kept")
			e.Compacted = lockapi.Compacted{Oldest: behind, Revision: behind}
			return refusal(e)
		})
		old, other := watchFor(t, c, first), watchFor(t, c, now)
		time.Sleep(time.Minute)
		next := tc.put("/a", "x")
		time.Sleep(time.Minute)
		wantTold(t, old, now, next)
		wantTold(t, other, next)
		wantCompacted(t, old, 1)
		wantCompacted(t, other, 0)
	})
}

// The client stops requesting what the last interested watch has left.
func TestLeavingWatchNarrowsTheStream(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		before := tc.revision()
		a := watchFor(t, c, before, client.OnPath("/a"))
		ctx := timeout(t, time.Minute)
		for range c.Watch(ctx, before) {
		}
		time.Sleep(15 * time.Second)
		if q := tc.lastStream(); !slices.Equal(q["path"], []string{"/a"}) {
			t.Errorf("the last stream is for %v", q)
		}
		now := tc.put("/a", "x")
		time.Sleep(time.Second)
		wantTold(t, a, now)
	})
}

// A loop may change its event; others see it as it came.
func TestWatchesShareNoMemory(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		before := tc.revision()
		wrong := make(chan string, 10)
		for range 3 {
			go func() {
				for e, err := range c.Watch(t.Context(), before, client.EventContents()) {
					if err != nil {
						return
					}
					if f := e.File; f == nil || f.Path != "/a" || f.Size != 2 || string(f.ContentBase64) != "\xff\x00" {
						wrong <- fmt.Sprintf("%+v", e.File)
						return
					}
					e.File.Path, e.File.ContentBase64[0] = "changed", 'y'
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		tc.put("/a", "\xff\x00")
		time.Sleep(time.Second)
		if len(wrong) > 0 {
			t.Errorf("a watch got %s", <-wrong)
		}
	})
}

// A request stays short enough for proxies, however many watches there are.
func TestSharedRequestIsShort(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		before := tc.revision()
		var all []*audience
		path := func(i int) string { return fmt.Sprintf("/%d/%s", i, strings.Repeat("x", 200)) }
		for i := range 100 {
			all = append(all, watchFor(t, c, before, client.OnPath(path(i))))
		}
		time.Sleep(time.Second)
		for i := range all {
			tc.put(path(i), "x")
		}
		time.Sleep(time.Second)
		for i, w := range all {
			wantTold(t, w, tc.past(before, ofPath(path(i)))...)
		}
		for _, r := range tc.sent() {
			if len(r.query) > 8000 {
				t.Errorf("a request with a query of %d bytes", len(r.query))
			}
		}
		wantAtMost(t, tc.streams(), 12, "streams began")
	})
}
