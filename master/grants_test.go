package master

import (
	"context"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// TestLateExitSparesTheNextCall: a call that ended long ago and exits only now
// does not withdraw the position of later calls.
func TestLateExitSparesTheNextCall(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		o := openOffice(t, n)
		key := state.HandleKey{Session: b, Path: "/a"}
		c, late := enter(o, key)
		other := begin(t.Context(), m, "/a", want(b, waiting(time.Second)))
		o.mu.Lock()
		c.leave(late) // its wait was over, and the other call stayed
		o.mu.Unlock()
		pass(time.Second)
		code(t, other.answered(t).err, lockapi.CodeLockHeld)
		next := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
		next.running(t)
		go m.ReleaseLock(context.Background(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a})
		pass(fakeDelay / 2) // the grant is on its way
		o.exit(&Caller{}, &registered{key, c, late})
		g := next.answered(t)
		pass(5 * fakeDelay)
		if g.err != nil || holder(n.State(), "/a") != b {
			t.Errorf("returned %+v, %v; held by %q, want %q", g.grant, g.err, holder(n.State(), "/a"), b)
		}
	})
}

// TestTimeUpAsTheOfficeCloses: the withdrawal comes too late to be accepted, so
// the position is still in the queue. It would be wrong to report that the call
// had no effect.
func TestTimeUpAsTheOfficeCloses(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		a, b := two(t, n.master)
		mustHold(t, n.master, "/a", want(a))
		call := begin(t.Context(), n.master, "/a", want(b, waiting(time.Second)))
		pass(time.Second - 5*fakeDelay - 2*time.Millisecond) // begin used some of the time
		go n.master.TransferMastership(context.Background(), &Caller{}, &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: "r2"}})
		code(t, call.answered(t).err, lockapi.CodeOutcomeUnknown)
		wantWaits(t, n, 1)
	})
}

// TestGrantUnderACallThatWantsSomethingElse: the call that waited for a grant
// has ended. The grant wakes another call for the same handle, which does not
// wait for it. The grant becomes an event if the position was kept, and is
// withdrawn otherwise.
func TestGrantUnderACallThatWantsSomethingElse(t *testing.T) {
	for _, tc := range []struct {
		name       string
		kept, late bool // late: the other call arrives after the first has ended
	}{{"kept", true, false}, {"kept, late", true, true}, {"not kept", false, false}} {
		t.Run(tc.name, func(t *testing.T) {
			one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
				a, b := two(t, m)
				mustHold(t, m, "/a", want(a))
				r := want(b, waiting(time.Minute))
				r.Queue = tc.kept
				call, place := placed(t, n, "/a", r)
				if tc.late {
					call.breakOff(place)
				}
				c, w := enter(call.o, call.key)
				if !tc.late {
					call.breakOff(place)
				}
				if _, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a}); err != nil || holder(n.State(), "/a") != b {
					t.Fatalf("held by %q, %v", holder(n.State(), "/a"), err)
				}
				call.o.exit(&Caller{}, &registered{call.key, c, w})
				pass(5 * fakeDelay)
				k, err := keepalive1(m, b, 0, 0)
				if err != nil || (len(k.Events) == 1) != tc.kept || (holder(n.State(), "/a") == b) != tc.kept {
					t.Errorf("events %+v, held by %q, %v", k.Events, holder(n.State(), "/a"), err)
				}
				if len(call.o.waiters.byHandle) != 0 {
					t.Errorf("%d handles are remembered for ever", len(call.o.waiters.byHandle))
				}
			})
		})
	}
}

// TestEventIsNotToldTwice: a call that wants something else leaves after the
// session has got the event of the grant.
func TestEventIsNotToldTwice(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		o := openOffice(t, n)
		key := state.HandleKey{Session: b, Path: "/a"}
		c, w := enter(o, key)
		granted202(t, m, "/a", a, b)
		k, err := keepalive1(m, b, 0, 0)
		if err != nil || len(k.Events) != 1 {
			t.Fatalf("%+v, %v", k.Events, err)
		}
		ack := k.Events[0].Seq
		wantEvents(t, m, b, ack, 0)
		o.exit(&Caller{}, &registered{key, c, w})
		code(t, second(acquireLock(t, m, "/a", want(b, shared(0)))), lockapi.CodeConflict)
		wantEvents(t, m, b, ack, 0)
	})
}

// releaseUnheard releases path behind the office's back: the state is ahead of
// what the office has followed, as it is for a moment after every entry.
func (n *node) releaseUnheard(o *office, session, path string) (released *state.Outcome) {
	term := n.term()
	n.Replace(func(now *state.State) *state.State {
		next, out := now.Apply(now.Index+1, term, state.Batch{Epoch: o.epoch, LeaseMS: o.opts.leaseMS(),
			Commands: []state.Command{{Operation: &state.Release{Session: session, Path: path}}}})
		released = &out
		return next
	})
	return released
}

// TestGrantBehindA202IsAnEvent, even if another call for the handle returns it.
// That call's read and the office's change come in either order.
func TestGrantBehindA202IsAnEvent(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
			a, b := two(t, m)
			mustHold(t, m, "/a", want(a))
			if g, err := acquireLock(t, m, "/a", want(b, queueing)); err != nil || g.State != lockapi.StateQueued {
				t.Fatalf("%+v, %v", g, err)
			}
			call, place := placed(t, n, "/a", want(b, queueing, waiting(time.Minute)))
			released := n.releaseUnheard(call.o, a, "/a")
			if !ahead {
				call.o.follow(released)
			}
			if g, err := call.queued(place, 0); err != nil || g.State != lockapi.StateHeld {
				t.Fatalf("%+v, %v", g, err)
			}
			if ahead {
				call.o.follow(released)
			}
			call.exit()
			wantEvents(t, m, b, 0, 1)
			if len(call.o.waiters.byHandle) != 0 {
				t.Errorf("ahead %v: %d handles are remembered for ever", ahead, len(call.o.waiters.byHandle))
			}
		})
	}
}

// TestBreakBeforeTheOfficeHearsOfTheGrant: the grant is still withdrawn.
func TestBreakBeforeTheOfficeHearsOfTheGrant(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		call, place := placed(t, n, "/a", want(b, waiting(time.Minute)))
		released := n.releaseUnheard(call.o, a, "/a")
		call.breakOff(place)
		call.o.follow(released)
		pass(5 * fakeDelay)
		if h := holder(n.State(), "/a"); h != "" {
			t.Errorf("held by %q, which got no answer", h)
		}
	})
}

// holdOf returns how a session shows its hold at path.
func holdOf(t *testing.T, m *Master, session, path string) (lockapi.Hold, bool) {
	t.Helper()
	s, err := m.GetSession(t.Context(), &Read{}, &lockapi.GetSession{Session: session})
	must(t, err)
	for _, h := range s.Holds {
		if h.Path == path {
			return h, true
		}
	}
	return lockapi.Hold{}, false
}

// heir makes b wait for /a, which a holds, in a queue position that is not
// kept. Mastership moves, b's call ends with outcome_unknown, and a releases.
func heir(t *testing.T, c *fakeCell, ttl time.Duration) (next *Master, a, b string) {
	t.Helper()
	m := c.office("r1").master
	a, b = newSession(t, m, time.Hour), newSession(t, m, ttl)
	mustHold(t, m, "/a", want(a))
	call := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
	call.running(t)
	next = c.office("r2").master
	code(t, call.answered(t).err, lockapi.CodeOutcomeUnknown)
	pass(time.Second)
	releaseLock(t, next, "/a", a)
	return next, a, b
}

// TestInheritedGrantShowsForHowLongItMayBeClaimed, and is withdrawn then; a
// read does not claim it.
func TestInheritedGrantShowsForHowLongItMayBeClaimed(t *testing.T) {
	for ttl, grace := range map[time.Duration]time.Duration{time.Hour: orphanGrace, 3 * time.Second: 3 * time.Second} {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			next, _, b := heir(t, c, ttl)
			n := c.node("r2")
			ends := openOffice(t, n).sessions.opened + grace
			for n.clock() < ends-100*time.Millisecond {
				h, ok := holdOf(t, next, b, "/a")
				if left := time.Duration(h.UnclaimedMS) * time.Millisecond; !ok || left <= 0 || left > ends-n.clock() || left < ends-n.clock()-time.Millisecond {
					t.Fatalf("ttl %v: %v, %+v; want it to show that it may be claimed for another %v", ttl, ok, h, ends-n.clock())
				}
				if page, err := next.ListSessions(t.Context(), &Read{}, &lockapi.ListSessions{Limit: 10}); err != nil || len(page.Sessions) != 2 ||
					len(page.Sessions[0].Holds)+len(page.Sessions[1].Holds) != 1 {
					t.Fatalf("%+v, %v", page, err)
				} else if h := append(page.Sessions[0].Holds, page.Sessions[1].Holds...)[0]; h.UnclaimedMS == 0 {
					t.Errorf("a list of sessions shows %+v", h)
				}
				if s, err := next.GetSession(t.Context(), &Read{Stale: true}, &lockapi.GetSession{Session: b}); err != nil || len(s.Holds) != 1 || s.Holds[0].UnclaimedMS != 0 {
					t.Fatalf("a stale read, which does not know, shows %+v, %v", s, err)
				}
				pass(100 * time.Millisecond)
			}
			pass(100*time.Millisecond + 3*fakeDelay)
			if h, ok := holdOf(t, next, b, "/a"); ok {
				t.Errorf("ttl %v: the unclaimed grant is still there: %+v", ttl, h)
			}
		})
	}
}

// TestClaimedGrantIsThePairsOwn, permanently and over changes of master,
// whether the claim got the grant or the conflict with it.
func TestClaimedGrantIsThePairsOwn(t *testing.T) {
	for _, mode := range []lockapi.Mode{lockapi.Exclusive, lockapi.Shared} {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			next, _, b := heir(t, c, time.Hour)
			shown, _ := holdOf(t, next, b, "/a")
			q := want(b)
			q.Mode = mode
			g, err := acquireLock(t, next, "/a", q)
			if mode == lockapi.Shared {
				code(t, err, lockapi.CodeConflict)
			} else if err != nil || g.Token != shown.Token {
				t.Fatalf("claimed %+v, %v; it showed %+v", g, err, shown)
			}
			for range 2 {
				if h, ok := holdOf(t, next, b, "/a"); !ok || h.UnclaimedMS != 0 || h.Token != shown.Token {
					t.Errorf("%v, %+v; want it to be its own", ok, h)
				}
				pass(10 * time.Second)
			}
			if h, ok := holdOf(t, c.office("r3").master, b, "/a"); !ok || h.UnclaimedMS != 0 {
				t.Errorf("under the next master: %v, %+v", ok, h)
			}
		})
	}
}

// TestUnclaimedGrantCanBeGivenBack by a caller that does not want it.
func TestUnclaimedGrantCanBeGivenBack(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		next, a, b := heir(t, c, time.Hour)
		releaseLock(t, next, "/a", b)
		g := mustHold(t, next, "/a", want(a))
		pass(10 * time.Second)
		if h, ok := holdOf(t, next, a, "/a"); !ok || h.Token != g.Token || h.UnclaimedMS != 0 {
			t.Errorf("%v, %+v", ok, h)
		}
	})
}

// TestGrantsThatStayAreNotUnclaimed: these are immediate grants, grants from
// kept positions, and grants that a waiting call returned. Grants of earlier
// offices also stay, since they may have been delivered.
func TestGrantsThatStayAreNotUnclaimed(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		a, b := newSession(t, m, time.Hour), newSession(t, m, time.Hour)
		mustHold(t, m, "/once", want(b))
		granted202(t, m, "/kept", a, b)
		mustHold(t, m, "/waited", want(a))
		call := begin(t.Context(), m, "/waited", want(b, waiting(time.Minute)))
		releaseLock(t, m, "/waited", a)
		must(t, call.answered(t).err)
		for _, to := range []string{"r1", "r2"} {
			if to != "r1" {
				m = c.office(to).master
			}
			for _, path := range []string{"/once", "/kept", "/waited"} {
				if h, ok := holdOf(t, m, b, path); !ok || h.UnclaimedMS != 0 {
					t.Errorf("%s under %s: %v, %+v", path, to, ok, h)
				}
			}
		}
		// A call for it that starts and ends does not change that.
		o := openOffice(t, c.node("r2"))
		key := state.HandleKey{Session: b, Path: "/waited"}
		own, w := enter(o, key)
		if h, ok := holdOf(t, m, b, "/waited"); !ok || h.UnclaimedMS != 0 {
			t.Errorf("while a call for it is under way: %v, %+v", ok, h)
		}
		o.exit(&Caller{}, &registered{key, own, w})
		pass(10 * time.Second)
		if h, ok := holdOf(t, m, b, "/waited"); !ok || h.UnclaimedMS != 0 {
			t.Errorf("behind it: %v, %+v", ok, h)
		}
	})
}

// TestGrantIsUnclaimedUntilItsCallIsAnswered: if the connection breaks before
// that, it is withdrawn.
func TestGrantIsUnclaimedUntilItsCallIsAnswered(t *testing.T) {
	for _, broken := range []bool{false, true} {
		one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
			a, b := two(t, m)
			mustHold(t, m, "/a", want(a))
			call, place := placed(t, n, "/a", want(b, waiting(time.Minute)))
			releaseLock(t, m, "/a", a)
			if h, ok := holdOf(t, m, b, "/a"); !ok || h.UnclaimedMS != 1 {
				t.Errorf("granted and undelivered: %v, %+v", ok, h)
			}
			if broken {
				call.breakOff(place)
				if h, ok := holdOf(t, m, b, "/a"); !ok || h.UnclaimedMS != 1 {
					t.Errorf("during its withdrawal: %v, %+v", ok, h)
				}
			} else if _, err := call.await(t.Context(), place, 0); err != nil {
				t.Fatal(err)
			}
			pass(3 * fakeDelay)
			if h, ok := holdOf(t, m, b, "/a"); ok == broken || h.UnclaimedMS != 0 {
				t.Errorf("broken %v: %v, %+v", broken, ok, h)
			}
			if !broken {
				call.exit()
			}
		})
	}
}

// TestReadOfAGrantThatIsTakenBackMeanwhile: the reader has a state with the
// grant, and checks its delivery only after the withdrawal.
func TestReadOfAGrantThatIsTakenBackMeanwhile(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		next, _, b := heir(t, c, time.Hour)
		n := c.node("r2")
		o := openOffice(t, n)
		before := n.State()
		v, _ := before.Session(b)
		pass(10 * time.Second)
		if s := sessionStateOf(o, before, v, &Caller{}); len(s.Holds) != 1 || s.Holds[0].UnclaimedMS != 1 {
			t.Errorf("%+v; it was withdrawn", s.Holds)
		}
		if _, ok := holdOf(t, next, b, "/a"); ok {
			t.Error("it was not withdrawn: the test shows nothing")
		}
	})
}
