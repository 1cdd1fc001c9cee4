package master

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

func with(paths ...string) func(*lockapi.LockRequest) {
	return func(r *lockapi.LockRequest) { r.With = paths }
}

func TestSetsAreGrantedTogether(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		a, b := two(t, m)
		mustHold(t, m, "/b", want(a))
		before := n.commands()
		_, err := m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/a", LockRequest: want(b, with("/b", "/c"))})
		if e := code(t, err, lockapi.CodeLockHeld); len(e.Holders) != 1 || e.Detail != `lock "/b" is held by a session without a name with token 1` {
			t.Errorf("refused with %v", e)
		}
		if n.commands() != before {
			t.Error("the refusal took a log entry")
		}
		call := begin(t.Context(), m, "/a", want(b, with("/b", "/c"), waiting(time.Minute)))
		call.running(t)
		twin := begin(t.Context(), m, "/c", want(b, with("/a", "/b"), waiting(time.Minute)))
		twin.running(t)
		if waits(n) != 3 {
			t.Fatalf("%d waits, want 3", waits(n))
		}
		must(t, second(m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/b", Session: a})))
		got := call.answered(t).grant
		if got.Path != "/a" || got.Token == 0 || len(got.With) != 2 || got.With[0].Path != "/b" || got.With[1].Path != "/c" {
			t.Errorf("granted %+v", got)
		}
		if again := twin.answered(t).grant; again.Path != "/c" || again.Token != got.With[1].Token || again.With[0].Token != got.Token {
			t.Errorf("granted %+v to the same request in another order", again)
		}
		must(t, second(m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/b", Session: b})))
		_, err = m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/a", LockRequest: want(b, with("/b"))})
		code(t, err, lockapi.CodeConflict)
	})
}

// TestSetInTheMomentOfTheBreak: the caller is gone as its locks are granted. All
// undelivered grants are withdrawn; grants of a kept position become events.
func TestSetInTheMomentOfTheBreak(t *testing.T) {
	for _, kept := range []bool{false, true} {
		one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
			know(c)
			a, b := two(t, m)
			mustHold(t, m, "/a", want(a))
			r := want(b, waiting(time.Minute), with("/b", "/c"))
			r.Queue = kept
			call, place := placed(t, n, "/a", r)
			must(t, second(m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a})))
			call.breakOff(place)
			pass(5 * fakeDelay)
			k, err := keepalive1(m, b, 0, 0)
			granted := func(e lockapi.Event) bool { return e.Type == lockapi.EventLockGranted }
			if err != nil || len(k.Events) != 3 || slices.ContainsFunc(k.Events, granted) != kept {
				t.Errorf("kept %v: events %+v, %v", kept, k.Events, err)
			}
			for _, path := range []string{"/a", "/b", "/c"} {
				if (holder(n.State(), path) == b) != kept {
					t.Errorf("kept %v: %s is held by %q", kept, path, holder(n.State(), path))
				}
			}
			if n := len(call.o.waiters.claims); n != 0 {
				t.Errorf("kept %v: %d claims are remembered for ever", kept, n)
			}
		})
	}
}

// TestSetOfAnEarlierOffice: a wait that no call asks about ends in all queues. A
// repeated request, in any order, keeps it.
func TestSetOfAnEarlierOffice(t *testing.T) {
	for _, again := range []bool{false, true} {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			know(c)
			n := c.office("r1")
			a, b := two(t, n.master)
			mustHold(t, n.master, "/b", want(a))
			go n.master.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/a", LockRequest: want(b, with("/b"), waiting(time.Minute))})
			pass(time.Second)
			next := c.office("r2")
			var call *acquiring
			if again {
				call = begin(t.Context(), next.master, "/b", want(b, with("/a"), waiting(time.Hour)))
			}
			pass(orphanGrace + time.Second)
			if n := waits(next); n != map[bool]int{true: 2}[again] {
				t.Errorf("asked again %v: %d waits", again, n)
			}
			if again {
				if _, err := next.master.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/b", Session: a}); err != nil {
					t.Error(err)
				}
				if g := call.answered(t); g.err != nil || len(g.grant.With) != 1 {
					t.Errorf("%+v, %v", g.grant, g.err)
				}
				pass(orphanGrace + time.Second)
				if holder(next.State(), "/a") != b || holder(next.State(), "/b") != b {
					t.Error("a grant that was delivered is withdrawn")
				}
			}
		})
	}
}

// TestSetNeedsEachRight: the right to lock is needed at each path.
func TestSetNeedsEachRight(t *testing.T) {
	by := &Caller{}
	RowOf(reflect.TypeFor[*lockapi.AcquireLock]()).ask(&lockapi.AcquireLock{Path: "/a", LockRequest: want("s", with("/b", "/c"))}, by)
	want := []Ask{{Right: LockAt, Path: "/b"}, {Right: LockAt, Path: "/c"}}
	if !slices.Equal(by.Also, want) {
		t.Errorf("asks for %+v, want %+v", by.Also, want)
	}
}

// TestSetsWaitForTheirLevel: a cell with a member that does not know sets refuses
// them, and changes nothing.
func TestSetsWaitForTheirLevel(t *testing.T) {
	inCell(t, 3, Options{Drift: drift, Level: 5}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		a := newSession(t, n.master, time.Hour)
		_, err := n.master.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/a", LockRequest: want(a, with("/b"))})
		code(t, err, lockapi.CodeConflict)
		if n.State().LockCount() != 0 {
			t.Error("a lock was granted")
		}
	})
}

// know makes all members report the latest level.
func know(c *fakeCell) {
	c.set(func(f *fakeConf) {
		f.level = map[string]uint64{}
		for _, n := range c.nodes {
			f.level[founder(n.id)] = state.Level
		}
	})
}

// TestEmptySet: an empty list is a request for one lock, also when it is repeated.
func TestEmptySet(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		r := want(b, with())
		r.With = []string{}
		r.Queue = true
		g, err := m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/a", LockRequest: r})
		if err != nil || g.State != lockapi.StateQueued {
			t.Errorf("first: %+v, %v", g, err)
		}
		g, err = m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/a", LockRequest: r})
		if err != nil || g.State != lockapi.StateQueued {
			t.Errorf("again: %+v, %v", g, err)
		}
	})
}

// TestRefusedSetDeliversNothing: a request for several locks is refused, since its
// session holds one of them in another mode. That hold is not the one that the first
// path's call was answered with, which stays.
func TestRefusedSetDeliversNothing(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		a, b := two(t, m)
		mustHold(t, m, "/x", want(a))
		mustHold(t, m, "/y", want(a))
		y := begin(t.Context(), m, "/y", want(b, shared(0), waiting(time.Hour)))
		y.running(t)
		m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/y", Session: a})
		if g := y.answered(t); g.err != nil {
			t.Fatal(g.err)
		}
		call, place := placed(t, n, "/x", want(b, waiting(time.Hour)))
		m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/x", Session: a})
		// a set request with the same handle, in the moment between the answer and the exit
		req := &lockapi.AcquireLock{Path: "/x", LockRequest: want(b, with("/y"))}
		s := newAcquire(call.o, &Caller{}, req)
		s.enter()
		if done, _, err := call.checkWait(place); !done || err != nil { // the first call is answered and exits
			t.Fatal(done, err)
		}
		code(t, second(s.run(t.Context())), lockapi.CodeConflict)
		call.exit()
		s.exit()
		pass(5 * fakeDelay)
		if holder(n.State(), "/x") != b {
			t.Error("the delivered grant is withdrawn")
		}
	})
}

// TestSetTimesOutOnce: two copies of a request for several locks, in the same order or
// another, time out together. The last one ends the wait.
func TestSetTimesOutOnce(t *testing.T) {
	for _, other := range [][]string{{"/x", "/y"}, {"/y", "/x"}} {
		one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
			know(c)
			a, b := two(t, m)
			mustHold(t, m, "/x", want(a))
			first, seq := placed(t, n, "/x", want(b, with("/y"), waiting(time.Minute)))
			second := newAcquire(first.o, &Caller{}, &lockapi.AcquireLock{Path: other[0], LockRequest: want(b, with(other[1]), waiting(time.Minute))})
			second.enter()
			for _, q := range []*acquire{first, second} {
				q.o.mu.Lock()
				q.claim.wait, q.with[0].claim.wait = seq, seq
				q.o.mu.Unlock()
			}
			_, e1 := first.timedOut(seq, 0)
			_, e2 := second.timedOut(seq, 0)
			if waits(n) != 0 {
				t.Errorf("second call names %v: both refused with %q and %q, but %d waits are in the queues", other, e1, e2, waits(n))
			}
			first.exit()
			second.exit()
			pass(5 * fakeDelay)
		})
	}
}

// TestSetIsForbiddenOnce: two copies of a request for several locks are refused
// together. The last one ends the kept position.
func TestSetIsForbiddenOnce(t *testing.T) {
	for _, other := range [][]string{{"/x", "/y"}, {"/y", "/x"}} {
		one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
			know(c)
			a, b := two(t, m)
			mustHold(t, m, "/x", want(a))
			r := want(b, with("/y"), waiting(time.Minute))
			r.Queue = true
			first, seq := placed(t, n, "/x", r)
			r.With = other[1:]
			second := newAcquire(first.o, &Caller{}, &lockapi.AcquireLock{Path: other[0], LockRequest: r})
			second.enter()
			for _, q := range []*acquire{first, second} {
				q.o.mu.Lock()
				q.claim.wait, q.with[0].claim.wait = seq, seq
				q.o.mu.Unlock()
			}
			refusal := lockapi.Errorf(lockapi.CodeUnauthenticated, "revoked")
			_, e1 := first.forbidden(seq, refusal)
			_, e2 := second.forbidden(seq, refusal)
			first.exit()
			second.exit()
			pass(time.Minute)
			if waits(n) != 0 {
				t.Errorf("second call names %v: both refused with %v and %v, but %d waits are in the queues a minute later", other, e1, e2, waits(n))
			}
		})
	}
}
