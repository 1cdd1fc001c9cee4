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
		key := claimKey{b, "/a", ""}
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
// has ended. The grant wakes another call for the same claim, which does not
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
				if len(call.o.waiters.claims) != 0 {
					t.Errorf("%d claims are remembered for ever", len(call.o.waiters.claims))
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
		key := claimKey{b, "/a", ""}
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

// TestGrantBehindA202IsAnEvent, even if another call for the claim returns it.
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
			if len(call.o.waiters.claims) != 0 {
				t.Errorf("ahead %v: %d claims are remembered for ever", ahead, len(call.o.waiters.claims))
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
