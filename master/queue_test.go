package master

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/deadlock"
	"github.com/stoutlock/stout/replica/state"
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

// TestDeadlocks: a cycle is shown with its waits and their times until one of
// its sessions ends. The master shows it, and another replica from its state.
func TestDeadlocks(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		a, b := lasting(t, m, "a", time.Hour), lasting(t, m, "b", time.Hour)
		one, other := mustHold(t, m, "/1", want(a)), mustHold(t, m, "/2", want(b))
		find := func(m *Master, stale bool) []lockapi.Deadlock {
			t.Helper()
			d, err := m.FindDeadlocks(t.Context(), &Read{Caller: new(root(AnyCaller)), Stale: stale}, &lockapi.FindDeadlocks{})
			must(t, err)
			return d.Deadlocks
		}
		ask := func(session, path string) {
			t.Helper()
			must(t, second(acquireLock(t, m, path, want(session, queueing))))
		}
		if ask(a, "/2"); len(find(m, false)) != 0 || m.cycles() != 0 {
			t.Errorf("one waits: %+v", find(m, false))
		}
		ask(b, "/1")
		pass(5 * time.Second)
		for i, n := range c.nodes {
			found := find(n.master, i > 0)
			if len(found) != 1 || len(found[0].Links) != 2 || n.master.cycles() != 1 {
				t.Fatalf("%s: %+v", n.id, found)
			}
			for _, l := range found[0].Links {
				name, path, token := "a", "/2", other.Token
				if l.Session == b {
					name, path, token = "b", "/1", one.Token
				}
				if l.SessionName != name || l.Path != path || l.Token != token || l.WaitingMS < 5000 || l.Mode != lockapi.Exclusive {
					t.Errorf("%s: %+v", n.id, l)
				}
			}
		}
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: a}))
		if found := find(m, false); len(found) != 0 {
			t.Errorf("after its end: %+v", found)
		}
	})
}

// TestDeadlocksLeaveOut cycles with a path that the caller may not read.
func TestDeadlocksLeaveOut(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		must(t, second(m.PutRule(t.Context(), new(root(Operate)), &lockapi.PutRule{Path: "/q", AccessLists: lockapi.AccessLists{Lock: []string{"user:a"}}})))
		ask := func(session, path string) {
			t.Helper()
			must(t, second(m.AcquireLock(t.Context(), new(using(by("user:a", LockAt, path), session)), &lockapi.AcquireLock{Path: path, LockRequest: want(session, queueing)})))
		}
		for _, paths := range [][2]string{{"/p/1", "/p/2"}, {"/p/3", "/q/1"}} {
			s, other := sessionOfCaller(t, m, "user:a"), sessionOfCaller(t, m, "user:a")
			ask(s, paths[0])
			ask(other, paths[1])
			ask(s, paths[1])
			ask(other, paths[0])
		}
		for who, seen := range map[string]int{"user:c": 1, "user:root": 2, "user:zoe": 0} {
			d, err := m.FindDeadlocks(t.Context(), &Read{Caller: new(by(who, AnyCaller))}, &lockapi.FindDeadlocks{})
			must(t, err)
			if len(d.Deadlocks) != seen {
				t.Errorf("%s sees %+v", who, d.Deadlocks)
			}
		}
	})
}

// TestCirclesAreCounted once for each state, and in a large cell not for each.
func TestCyclesAreCounted(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		s := newSession(t, m, time.Hour)
		mustHold(t, m, "/l", want(s))
		must(t, second(acquireLock(t, m, "/l", want(s, handle("again"), queueing))))
		c := &m.counted
		for _, x := range []struct {
			of    uint64
			again time.Duration
			want  int
		}{{m.log.State().Index, 0, 7}, {0, time.Hour, 7}, {0, 0, 1}} {
			c.of, c.n, c.again = x.of, 7, m.opts.Clock()+x.again
			if n := m.cycles(); n != x.want {
				t.Errorf("%d circles, want %d: %+v", n, x.want, x)
			}
		}
	})
}

// TestLongCirclesAreCut: the rest of the links is counted.
func TestLongCyclesAreCut(t *testing.T) {
	c := slices.Repeat(deadlock.Cycle{{Wait: &state.Wait{Path: "/l"}, Hold: &state.Hold{}}}, lockapi.MaxDeadlockLinks+2)
	if d := deadlockOf(state.New(), c, time.Now()); len(d.Links) != lockapi.MaxDeadlockLinks || d.MoreLinks != 2 {
		t.Errorf("%d links and %d more", len(d.Links), d.MoreLinks)
	}
}
