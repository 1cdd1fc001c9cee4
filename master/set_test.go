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
		_, err := acquireLock(t, m, "/a", want(b, with("/b", "/c")))
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
		wantWaits(t, n, 3)
		releaseLock(t, m, "/b", a)
		got := call.answered(t).grant
		if got.Path != "/a" || got.Token == 0 || len(got.With) != 2 || got.With[0].Path != "/b" || got.With[1].Path != "/c" {
			t.Errorf("granted %+v", got)
		}
		if again := twin.answered(t).grant; again.Path != "/c" || again.Token != got.With[1].Token || again.With[0].Token != got.Token {
			t.Errorf("granted %+v to the same request in another order", again)
		}
		releaseLock(t, m, "/b", b)
		code(t, second(acquireLock(t, m, "/a", want(b, with("/b")))), lockapi.CodeConflict)
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
			releaseLock(t, m, "/a", a)
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
			if n := len(call.o.waiters.byHandle); n != 0 {
				t.Errorf("kept %v: %d handles are remembered for ever", kept, n)
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
			go acquireLock(t, n.master, "/a", want(b, with("/b"), waiting(time.Minute)))
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
				must(t, second(next.master.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/b", Session: a})))
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

// TestRefusalClaimsTheWholeSet: a refusal because of another mode shows the caller
// that it holds the set, so nothing of it is withdrawn. It does not show the grant of
// another request.
func TestRefusalClaimsTheWholeSet(t *testing.T) {
	for _, set := range []bool{true, false} {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			know(c)
			n := c.office("r1")
			a, b := two(t, n.master)
			mustHold(t, n.master, "/b", want(a))
			if set {
				go acquireLock(t, n.master, "/a", want(b, with("/b"), waiting(time.Minute)))
			} else {
				mustHold(t, n.master, "/a", want(b))
				go acquireLock(t, n.master, "/b", want(b, waiting(time.Minute)))
			}
			pass(time.Second)
			next := c.office("r2")
			releaseLock(t, next.master, "/b", a)
			code(t, second(acquireLock(t, next.master, "/a", want(b, with("/b"), shared(0)))), lockapi.CodeConflict)
			pass(orphanGrace + time.Second)
			if holder(next.State(), "/a") != b || (holder(next.State(), "/b") == b) != set {
				t.Errorf("a set: %v; /a is held by %q and /b by %q", set, holder(next.State(), "/a"), holder(next.State(), "/b"))
			}
		})
	}
}

// TestRefusalOfAPartKeepsTheSet: a call for one lock of a set is refused because of
// its mode, as the call for the set breaks off. The session keeps all locks, or none.
func TestRefusalOfAPartKeepsTheSet(t *testing.T) {
	for _, first := range []string{"refused", "broken", "broken and withdrawn"} {
		for _, path := range []string{"/a", "/b"} {
			one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
				know(c)
				a, b := two(t, m)
				mustHold(t, m, "/b", want(a))
				set, seq := placed(t, n, "/a", want(b, with("/b"), waiting(time.Minute)))
				part := newAcquire(set.o, &Caller{}, &lockapi.AcquireLock{Path: path, LockRequest: want(b, shared(0))})
				part.enter()
				releaseLock(t, m, "/b", a)
				if first != "refused" {
					set.breakOff(seq)
				}
				if first == "broken and withdrawn" {
					pass(5 * fakeDelay)
				}
				code(t, second(part.run(t.Context())), lockapi.CodeConflict)
				if first == "refused" {
					set.breakOff(seq)
				}
				part.exit()
				pass(5 * fakeDelay)
				kept := first == "refused"
				if s := n.State(); (holder(s, "/a") == b) != kept || (holder(s, "/b") == b) != kept {
					t.Errorf("%s first, asked for %s: /a is held by %q and /b by %q", first, path, holder(s, "/a"), holder(s, "/b"))
				}
				noneRemembered(t, set.o)
			})
		}
	}
}

func noneRemembered(t *testing.T, o *office) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.waiters.byHandle); n != 0 {
		t.Errorf("%d handles are remembered for ever", n)
	}
}

// TestRefusalOfAPartKeepsAnAdoptedSet: the set was granted in an office that no call for
// it has reached. A refusal because of another mode shows that the session holds it.
func TestRefusalOfAPartKeepsAnAdoptedSet(t *testing.T) {
	for _, path := range []string{"/a", "/b"} {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			know(c)
			n := c.office("r1")
			a, b := two(t, n.master)
			mustHold(t, n.master, "/b", want(a))
			go acquireLock(t, n.master, "/a", want(b, with("/b"), waiting(time.Minute)))
			pass(time.Second)
			next := c.office("r2")
			releaseLock(t, next.master, "/b", a)
			code(t, second(acquireLock(t, next.master, path, want(b, shared(0)))), lockapi.CodeConflict)
			pass(orphanGrace + time.Second)
			if s := next.State(); holder(s, "/a") != b || holder(s, "/b") != b {
				t.Errorf("asked for %s: /a is held by %q and /b by %q", path, holder(s, "/a"), holder(s, "/b"))
			}
			noneRemembered(t, openOffice(t, next))
		})
	}
}

// TestLateAnswerTakesNothingBack: a call that still answers with an earlier hold does
// not make a later grant of the pair count as undelivered.
func TestLateAnswerTakesNothingBack(t *testing.T) {
	r := registered{acquires: &acquires{}}
	for _, seq := range []uint64{9, 7, 0} {
		r.markDelivered(&office{}, &state.Hold{WaitSeq: seq})
	}
	if r.acquires.delivered != 9 {
		t.Errorf("the grant %d counts as delivered", r.acquires.delivered)
	}
}

// TestRefusalIsNoEvent: a refusal because of another mode does not replace the event of
// a kept grant, because it has no token.
func TestRefusalIsNoEvent(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		a, b := two(t, m)
		mustHold(t, m, "/l", want(a))
		must(t, second(acquireLock(t, m, "/l", want(b, queueing))))
		releaseLock(t, m, "/l", a)
		h, _ := (state.HandleKey{Session: b, Path: "/l"}).In(n.State())
		call := newAcquire(openOffice(t, n), &Caller{}, &lockapi.AcquireLock{Path: "/l", LockRequest: want(b)})
		call.enter()
		defer call.exit()
		call.acquires.wait = h.WaitSeq
		call.o.mu.Lock()
		call.o.waiters.delivered(h)
		call.o.mu.Unlock()
		if call.acquires.delivered != 0 {
			t.Errorf("the grant %+v counts as delivered", h)
		}
	})
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
		code(t, second(acquireLock(t, n.master, "/a", want(a, with("/b")))), lockapi.CodeConflict)
		if n.State().LockCount() != 0 {
			t.Error("a lock was granted")
		}
	})
}

// TestEmptySet: an empty list is a request for one lock, also when it is repeated.
func TestEmptySet(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		for range 2 {
			if g, err := acquireLock(t, m, "/a", want(b, queueing, with([]string{}...))); err != nil || g.State != lockapi.StateQueued {
				t.Errorf("%+v, %v", g, err)
			}
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

// TestSetEndsOnce: two copies of a request for several locks, in the same order or
// another, time out together or are refused together. The last one ends the wait.
func TestSetEndsOnce(t *testing.T) {
	refusal := lockapi.Errorf(lockapi.CodeUnauthenticated, "revoked")
	for name, end := range map[string]func(q *acquire, seq uint64) error{
		"in time":   func(q *acquire, seq uint64) error { return second(q.timedOut(seq, 0)) },
		"forbidden": func(q *acquire, seq uint64) error { return second(q.forbidden(seq, refusal)) },
	} {
		for _, other := range [][]string{{"/x", "/y"}, {"/y", "/x"}} {
			one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
				know(c)
				a, b := two(t, m)
				mustHold(t, m, "/x", want(a))
				r := want(b, with("/y"), waiting(time.Minute))
				r.Queue = name == "forbidden" // a kept position
				one, seq := placed(t, n, "/x", r)
				r.With = other[1:]
				twin := newAcquire(one.o, &Caller{}, &lockapi.AcquireLock{Path: other[0], LockRequest: r})
				twin.enter()
				for _, q := range []*acquire{one, twin} {
					q.o.mu.Lock()
					q.acquires.wait, q.with[0].acquires.wait = seq, seq
					q.o.mu.Unlock()
				}
				e1, e2 := end(one, seq), end(twin, seq)
				one.exit()
				twin.exit()
				pass(time.Minute)
				if waits(n) != 0 {
					t.Errorf("%s, the second call names %v: %v and %v, but %d waits are in the queues", name, other, e1, e2, waits(n))
				}
			})
		}
	}
}
