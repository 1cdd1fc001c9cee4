package master

import (
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// eventsOf reads the events after a revision.
func eventsOf(t *testing.T, m *Master, after uint64, bytes int, content bool, types ...lockapi.EventType) ([]lockapi.CellEvent, uint64) {
	t.Helper()
	f, err := NewEventFilter(nil, nil, types, content)
	must(t, err)
	w := watching(t, m, f)
	defer w.Close()
	all, upTo, err := w.Read(after, 100, bytes)
	must(t, err)
	return all, upTo
}

// TestEventsOfLocks have the grant, its holder's name, and why it ended; a waiter
// has no token.
func TestEventsOfLocks(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		s, err := m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 60_000, Name: "worker"}})
		must(t, err)
		must(t, second(acquireLock(t, m, "/l", want(s.ID, handle("a")))))
		must(t, second(acquireLock(t, m, "/l", want(s.ID, handle("b"), queueing))))
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: s.ID}))
		all, _ := eventsOf(t, m, 0, 1<<20, false, lockapi.EventLockAcquired, lockapi.EventLockReleased, lockapi.EventLockContended)
		var got []string
		for _, e := range all {
			got = append(got, string(e.Type)+" "+e.Reason)
			if h := e.Hold; e.Type != lockapi.EventMasterChanged && (e.Path != "/l" || h == nil || h.Session != s.ID || h.SessionName != "worker" ||
				(h.Token == 0) != (e.Type == lockapi.EventLockContended) || h.Mode != lockapi.Exclusive) {
				t.Errorf("%+v %+v", e, h)
			}
		}
		if text := strings.Join(got, ", "); text != "master_changed , lock_acquired , lock_contended , lock_released session_closed" {
			t.Error(text)
		}
	})
}

// TestContentOfEvents is the content of the event, as long as the file has it;
// one read has a limited amount.
func TestContentOfEvents(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		for range 2 {
			for _, path := range []string{"/a", "/b", "/c"} {
				must(t, putSized(t, m, path, 100))
			}
		}
		all, upTo := eventsOf(t, m, 1, 1<<20, true)
		for i, e := range all {
			if has := e.File.Content != nil; has != (i >= 3) {
				t.Errorf("revision %d has its content: %v", e.Revision, has)
			}
		}
		// Each byte of putSized is \u0000 in JSON.
		if part, reached := eventsOf(t, m, upTo-3, 1500, true); len(part) != 2 || reached != upTo-1 {
			t.Errorf("%d events, up to %d of %d", len(part), reached, upTo)
		}
		if part, reached := eventsOf(t, m, upTo-3, 1, true); len(part) != 1 || reached != upTo-2 {
			t.Errorf("%d events, up to %d of %d", len(part), reached, upTo)
		}
	})
}

// TestUnknownTypesOfEvents are refused.
func TestUnknownTypesOfEvents(t *testing.T) {
	_, err := NewEventFilter(nil, nil, []lockapi.EventType{"file_moved"}, false)
	if e := code(t, err, lockapi.CodeInvalidArgument); e.Field != "types" {
		t.Errorf("%+v", e)
	}
}

// TestWatchersShareAnEvent: an event is converted once for all of them.
func TestWatchersShareAnEvent(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		first, second := watching(t, m, EventFilter{}), watching(t, m, EventFilter{})
		defer first.Close()
		defer second.Close()
		must(t, putSized(t, m, "/a", 100))
		_, now := first.Bounds()
		a, _, err := first.Read(now-1, 10, 1<<20)
		must(t, err)
		b, _, err := second.Read(now-1, 10, 1<<20)
		must(t, err)
		if len(a) != 1 || len(b) != 1 || a[0].File == nil || a[0].File != b[0].File {
			t.Errorf("%+v and %+v", a, b)
		}
		if n := testing.AllocsPerRun(100, func() { _, _, _ = second.Read(now-1, 10, 1<<20) }); n > 2 {
			t.Errorf("%v allocations for each receiver", n)
		}
	})
}

// TestWatchIsReadyForTheRest: after a read that leaves events out, for their
// number or their contents, the watch is ready.
func TestWatchIsReadyForTheRest(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		for name, bound := range map[string]struct{ limit, bytes int }{"number": {2, 1 << 20}, "contents": {100, 1}} {
			w := watching(t, m, EventFilter{content: true})
			defer w.Close()
			_, after := w.Bounds()
			for _, path := range []string{"/a", "/b", "/c"} {
				must(t, putSized(t, m, path, 100))
			}
			for n := 0; n < 3; {
				select {
				case <-w.Ready():
				default:
					if n > 0 {
						t.Fatalf("%s: not ready after %d of 3 events", name, n)
					}
				}
				got, upTo, err := w.Read(after, bound.limit, bound.bytes)
				must(t, err)
				n, after = n+len(got), upTo
			}
		}
	})
}
