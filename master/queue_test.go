package master

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// named opens a session with a name and metadata.
func named(t *testing.T, m *Master, name string, meta map[string]string) string {
	t.Helper()
	s, err := m.OpenSession(t.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: 600_000, Name: name, Meta: meta}})
	must(t, err)
	return s.ID
}

// TestWhoWaits: a read shows the first waits of a queue in order, with their
// sessions and times. A change of master and repeated calls make no wait
// shorter.
func TestWhoWaits(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		meta := map[string]string{"pid": "811"}
		a, b := named(t, m, "billing", meta), named(t, m, "reports", nil)
		mustHold(t, m, "/a", want(a))
		began := time.Now()
		for _, h := range []string{"first", "second", "third"} {
			pass(time.Second)
			must(t, second(acquireLock(t, m, "/a", want(b, queueing, handle(h)))))
		}
		m = c.office("r2").master
		pass(time.Minute)
		must(t, second(acquireLock(t, m, "/a", want(b, queueing, handle("first")))))
		for _, stale := range []bool{false, true} {
			l, err := m.GetLock(t.Context(), &Read{Stale: stale}, &lockapi.GetLock{Path: "/a", Waiters: 2})
			if err != nil || len(l.Queue) != 2 || l.Waiters != 3 {
				t.Fatalf("%+v, %v; want two places of three", l, err)
			}
			if h := l.Holders[0]; h.SessionName != "billing" || !maps.Equal(h.SessionMeta, meta) {
				t.Errorf("holder %+v", h)
			}
			for i, w := range l.Queue {
				since := began.Add(time.Duration(i+1) * time.Second)
				if w.Session != b || w.SessionName != "reports" || w.SessionMeta != nil || w.Mode != lockapi.Exclusive ||
					w.Handle != []string{"first", "second"}[i] || w.Position != i+1 {
					t.Errorf("place %d: %+v", i+1, w)
				}
				if d := w.Since.Sub(since); d < 0 || d > time.Duration(i+1)*2*c.delay {
					t.Errorf("place %d is there since %v, want %v", i+1, w.Since, since)
				}
				if got, want := w.WaitingMS, time.Since(w.Since).Milliseconds(); got != want {
					t.Errorf("place %d waits for %d ms, want %d", i+1, got, want)
				}
			}
		}
	})
}

// TestQueueIsShownOnlyWhereItIsAskedFor, and is empty if no session waits.
func TestQueueIsShownOnlyWhereItIsAskedFor(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		must(t, second(acquireLock(t, m, "/a", want(b, queueing))))
		if l, err := m.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/a"}); err != nil || l.Queue != nil {
			t.Errorf("%+v, %v", l, err)
		}
		if l, err := m.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/free", Waiters: 5}); err != nil || l.Queue == nil || len(l.Queue) != 0 {
			t.Errorf("%+v, %v", l, err)
		}
		if page, err := m.ListLocks(context.Background(), &Read{}, &lockapi.ListLocks{Prefix: "/", Limit: 10}); err != nil || len(page.Locks) != 1 || page.Locks[0].Queue != nil {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

// TestNobodyWaitsForLessThanNothing: the clock of the replica that answers may
// be behind the clock of the master that queued the wait.
func TestNobodyWaitsForLessThanNothing(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		must(t, second(acquireLock(t, m, "/a", want(b, queueing))))
		pass(time.Second)
		mustHold(t, m, "/b", want(a)) // advances the state's time
		room := metaBudget(0)
		if q := queueOf(n.State(), "/a", 1, time.Unix(0, 0), &room); len(q) != 1 || q[0].WaitingMS < 1000 {
			t.Errorf("%+v", q)
		}
	})
}
