package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// audience keeps what a watch has told.
type audience struct {
	mu        sync.Mutex // guards the following
	revisions []uint64
	compacted []lockapi.Compacted
	err       error
}

// watchFor lets a watch run beside the test, which ends it.
func watchFor(t *testing.T, c *Client, after uint64, filters ...Filter) *audience {
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

func wantTold(t *testing.T, w *audience, want ...uint64) {
	t.Helper()
	synctest.Wait()
	if got := w.told(); !slices.Equal(got, want) {
		_, err := w.over()
		t.Fatalf("told are %v, want %v (%v)", got, want, err)
	}
}

func upTo(n uint64) (out []uint64) {
	for i := uint64(1); i <= n; i++ {
		out = append(out, i)
	}
	return out
}

func TestWatch(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		f.put("/a", "one")
		f.put("/b", "one")
		all := watchFor(t, c, 0)
		later := watchFor(t, c, 1)
		a := watchFor(t, c, 0, OnPath("/a"), OnPrefix("/app/"))
		gone := watchFor(t, c, 0, OfType(lockapi.EventFileDeleted))
		now := watchFor(t, c, FromNow, EventContents())
		time.Sleep(time.Second)
		f.put("/app/x", "one")
		if _, err := c.Delete(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantTold(t, all, 1, 2, 3, 4)
		wantTold(t, later, 2, 3, 4)
		wantTold(t, a, 1, 3, 4)
		wantTold(t, gone, 4)
		wantTold(t, now, 3, 4)
		if n := f.streams(); n != 5 {
			t.Errorf("%d streams were begun", n)
		}
	})
}

// An event comes with what it is about, and the loop ends when the caller has
// enough, or with the context.
func TestWatchTellsWhatHappened(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		f.put("/a", "one")
		for e, err := range c.Watch(t.Context(), 0, EventContents()) {
			if err != nil || e.Type != lockapi.EventFileCreated || e.Path != "/a" || e.File == nil || *e.File.Content != "one" {
				t.Errorf("%+v, %v", e, err)
			}
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var last error
		for _, err := range c.Watch(ctx, 1) {
			last = err
		}
		wantErr(t, last, context.DeadlineExceeded)
		for _, bad := range []Filter{OnPath("a"), OnPrefix("a")} {
			for _, last = range c.Watch(ctx, 1, bad) {
			}
			wantErr(t, last, ErrInvalidArgument)
		}
	})
}

// Whatever breaks, each event is told once and in order.
func TestWatchResumes(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		all := watchFor(t, c, 0)
		odd := watchFor(t, c, 0, OnPrefix("/1/"))
		for i := range 300 {
			f.put(fmt.Sprintf("/%d/x", i%2), "x")
			switch i % 50 {
			case 7:
				f.breakStreams()
			case 20:
				f.set(func() { f.replicas["r2"].events.upTo = uint64(i - 5) })
			case 25:
				f.breakStreams() // some go on at the replica that is behind
			case 30:
				f.set(func() { f.replicas["r2"].events.upTo = 0 })
			case 35:
				f.kill("r3")
			case 45:
				f.set(func() { f.replicas["r3"].dead = false })
			}
			time.Sleep(time.Duration(i%7) * 300 * time.Millisecond)
		}
		time.Sleep(5 * time.Minute)
		wantTold(t, all, upTo(300)...)
		wantTold(t, odd, slices.DeleteFunc(upTo(300), func(n uint64) bool { return n%2 == 1 })...)
	})
}

// What is acknowledged after the loop has begun is told, though the first
// stream comes late, and breaks.
func TestWatchFromNowMissesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		f.put("/a", "before")
		for _, r := range f.replicas {
			r.events.mute = true
		}
		w := watchFor(t, c, FromNow)
		time.Sleep(time.Second)
		f.put("/a", "after")
		time.Sleep(time.Second)
		f.set(func() {
			for _, r := range f.replicas {
				r.events.mute = false
			}
		})
		f.breakStreams()
		time.Sleep(time.Minute)
		wantTold(t, w, 2)
	})
}

// A replica that does not keep the events is passed over for one that does.
func TestWatchFindsWhoKeepsTheEvents(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		for range 10 {
			f.put("/a", "x")
		}
		f.forget("r1", "r3")
		for range 10 {
			w := watchFor(t, c, 3)
			time.Sleep(10 * time.Second)
			wantTold(t, w, 4, 5, 6, 7, 8, 9, 10)
		}
	})
}

// Where nobody keeps them the caller is told, and then what comes after.
func TestWatchCompacted(t *testing.T) {
	for name, change := range map[string]func(*fakeCell){
		"all are well":       func(*fakeCell) {},
		"one can't be asked": func(f *fakeCell) { f.kill("r2") },
		"one hangs":          func(f *fakeCell) { f.silence("r2", true) },
		"as JSON":            func(f *fakeCell) { noStreams(f) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
				change(f)
				for range 10 {
					f.put("/a", "x")
				}
				f.forget("r1", "r2", "r3")
				w := watchFor(t, c, 3)
				time.Sleep(time.Minute)
				f.put("/a", "x")
				time.Sleep(time.Minute)
				wantTold(t, w, 11)
				if compacted, err := w.over(); err != nil || !slices.Equal(compacted, []lockapi.Compacted{{Oldest: 10, Revision: 10}}) {
					t.Errorf("compacted %+v, %v", compacted, err)
				}
			})
		})
	}
}

// A stream that lies behind tells that it is compacted at its end.
func TestWatchCompactedUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		f.put("/a", "x")
		var told []string
		for e, err := range c.Watch(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Compacted != nil {
				told = append(told, fmt.Sprintf("compacted %d", e.Compacted.Revision))
				f.put("/a", "x")
				continue
			}
			if told = append(told, fmt.Sprint(e.Revision)); len(told) == 3 {
				break
			}
			f.set(func() { // while the caller deals with it
				for range 5 {
					f.tellFile(f.write("/a", nil))
				}
				for _, r := range f.replicas {
					r.events.oldest = f.files.revision
				}
			})
		}
		if want := []string{"1", "compacted 6", "7"}; !slices.Equal(told, want) {
			t.Errorf("told are %v, want %v", told, want)
		}
	})
}

func noStreams(f *fakeCell) {
	for _, r := range f.replicas {
		r.events.noStream = true
	}
}

// Where there are no streams, or none that begin, calls that wait do as well.
func TestWatchByPolls(t *testing.T) {
	for name, change := range map[string]func(*fakeCell){
		"no streams": noStreams,
		"held up": func(f *fakeCell) {
			for _, r := range f.replicas {
				r.events.mute = true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
				change(f)
				w := watchFor(t, c, 0)
				time.Sleep(time.Minute)
				for i := range 100 {
					f.put("/a", "x")
					if i == 50 {
						f.kill("r1")
						f.elect("r2")
					}
					time.Sleep(time.Duration(i%5) * time.Second)
				}
				time.Sleep(2 * time.Minute)
				wantTold(t, w, upTo(100)...)
				calls := func(r fakeRequest) bool { return !isLook(r) }
				before, looks := f.count(calls), f.count(isLook)
				time.Sleep(time.Hour)
				if n := f.count(calls) - before; n > 400 {
					t.Errorf("%d requests in an idle hour", n)
				}
				if n := f.count(isLook) - looks; n < 60 || n > 120 {
					t.Errorf("%d looks in an hour", n)
				}
			})
		})
	}
}

// A replica that hangs, in the midst of a stream or before, is left.
func TestWatchLeavesWhoIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		w := watchFor(t, c, 0)
		time.Sleep(time.Second)
		for id, r := range f.replicas { // whichever it is
			f.set(func() {
				if r.events.streams > 0 {
					r.events.upTo = never
					f.replicas[id].silent = true
				}
			})
		}
		f.put("/a", "x")
		time.Sleep(time.Minute)
		wantTold(t, w, 1)
	})
}

// A replica that is cut off from the others has nothing to tell, and says so.
func TestWatchLeavesWhoIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		f.put("/a", "x")
		w := watchFor(t, c, 0)
		time.Sleep(time.Second)
		f.set(func() {
			for _, r := range f.replicas {
				if r.events.streams > 0 {
					r.lonely, r.events.upTo = true, 1
				}
			}
		})
		f.put("/a", "x")
		time.Sleep(2 * time.Minute)
		wantTold(t, w, 1, 2)
	})
}

// What goes back, comes twice or was not asked for is told to nobody. A replica
// that tells it is left for another; when all do the watch is over.
func TestWatchRefusesLies(t *testing.T) {
	event := func(revision uint64, path string) lockapi.CellEvent {
		stat := lockapi.FileStat{Path: path, Revision: revision, Instance: 1, Generation: 2}
		return lockapi.CellEvent{Revision: revision, Type: lockapi.EventFileChanged, Path: path, File: &lockapi.File{FileStat: stat}}
	}
	good := sse("file_changed", 4, event(4, "/a"))
	for name, script := range map[string]string{
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
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
				for range 3 {
					f.put("/a", "x")
				}
				f.set(func() { f.replicas["r1"].events.script = script; f.replicas["r2"].events.script = script })
				w := watchFor(t, c, 3, OnPath("/a"), OfType(lockapi.EventFileChanged))
				time.Sleep(time.Minute)
				f.put("/a", "x")
				f.put("/a", "x")
				time.Sleep(time.Minute)
				told := w.told()
				if got := slices.Compact(slices.Sorted(slices.Values(told))); !slices.Equal(got, told) {
					t.Errorf("told are %v", told)
				}
				if told[len(told)-1] != 5 {
					t.Errorf("told are %v", told)
				}
				f.set(func() { f.replicas["r3"].events.script = script })
				if strings.HasPrefix(script, good) {
					return // each tells something that is true first
				}
				w = watchFor(t, c, 3, OnPath("/a"), OfType(lockapi.EventFileChanged))
				before := f.streams()
				time.Sleep(time.Minute)
				_, err := w.over()
				wantErr(t, err, ErrInternal)
				wantTold(t, w)
				if n := f.streams() - before; n != 3 {
					t.Errorf("%d streams were begun", n)
				}
			})
		})
	}
}

// Numbers that are left out are those of events that were not asked for, or may
// not be told.
func TestWatchTakesGaps(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		f.put("/a", "x")
		f.set(func() { f.files.revision = 1 << 50 })
		f.put("/a", "x")
		w := watchFor(t, c, 0)
		time.Sleep(time.Minute)
		wantTold(t, w, 1, 1<<50+1)
	})
}

// A refusal is the end; that streams are used up at one replica is not.
func TestWatchRefused(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		i := &instead{fakeCell: f}
		c, err := Config{URLs: []string{"http://r1", "http://r2", "http://r3"}, Transport: i, Clock: func() time.Duration { return time.Since(f.start) }}.New()
		wantErr(t, err, nil)
		f.put("/a", "x")
		var limit atomic.Int64
		refuseWith := func(code lockapi.Code) {
			i.say(func(r *http.Request) (int, any) {
				if r.URL.Path != lockapi.RouteEvents || limit.Add(-1) < 0 {
					return 0, nil
				}
				return code.Status(), lockapi.Errorf(code, "no")
			})
		}
		for code, most := range map[lockapi.Code]int64{ErrInvalidArgument: 1, ErrTooMany: 3, ErrInternal: 3} {
			limit.Store(most)
			refuseWith(code)
			w := watchFor(t, c, 0)
			time.Sleep(time.Minute)
			_, err := w.over()
			wantErr(t, err, code)
		}
		for _, code := range []lockapi.Code{ErrTooMany, ErrInternal} {
			limit.Store(2)
			refuseWith(code)
			w := watchFor(t, c, 0)
			time.Sleep(time.Minute)
			wantTold(t, w, 1)
		}
		limit.Store(1000)
		refuseWith(ErrNoMaster)
		w := watchFor(t, c, 0)
		time.Sleep(time.Minute)
		if n := 1000 - limit.Load(); n > 200 {
			t.Errorf("%d requests in a minute", n)
		}
		limit.Store(0)
		time.Sleep(time.Minute)
		wantTold(t, w, 1)
	})
}

// Watchers of one replica that dies do not come back in one instant.
func TestWatchersComeBackOneByOne(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		for range 50 {
			watchFor(t, c, 0)
		}
		time.Sleep(time.Second)
		before := len(f.sent())
		f.breakStreams()
		time.Sleep(10 * time.Second)
		at := map[time.Duration]int{}
		for _, r := range f.sent()[before:] {
			at[r.at.Truncate(time.Millisecond)]++
		}
		for when, n := range at {
			if n > 25 {
				t.Errorf("%d come back at %s", n, when)
			}
		}
	})
}

func TestMessages(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	text := ": hello\n\nretry: 10\nid: 7\nevent: a\ndata: one\ndata:two\n\nid: 8\r\nevent: b\r\ndata:  " + long + "\r\n\r\nevent: lost\n\ndata\n\nid: 9\ndata: cut off\n"
	m := newMessages(strings.NewReader(text))
	for _, want := range []message{{"7", "a", []byte("one\ntwo")}, {"8", "b", []byte(" " + long)}, {"", "", []byte("")}} {
		got, err := m.next()
		if err != nil || got.id != want.id || got.event != want.event || string(got.data) != string(want.data) {
			t.Fatalf("%.40q %q %q, %v", got.data, got.id, got.event, err)
		}
	}
	if got, err := m.next(); err == nil {
		t.Errorf("what was cut off is %+v", got)
	}
	for _, endless := range []string{"data: " + strings.Repeat("x", mostMessage+1), strings.Repeat("data: "+long+"\n", mostMessage/len(long)+1)} {
		if _, err := newMessages(strings.NewReader(endless)).next(); !errors.Is(err, errLongMessage) {
			t.Errorf("a message without end: %v", err)
		}
	}
}
