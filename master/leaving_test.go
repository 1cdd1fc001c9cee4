package master

import (
	"context"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// TestLateExitSparesTheNextPair: a call that ended long ago, and only now gets
// to its exit, does not take the place of calls that came after.
func TestLateExitSparesTheNextPair(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		o := openOffice(t, n)
		key := pairKey{b, "/a", ""}
		p, late := o.enter(key)
		other := begin(t.Context(), m, "/a", want(b, waiting(time.Second)))
		o.mu.Lock()
		p.leaves(late) // its time was up, and the other call stayed
		o.mu.Unlock()
		pass(time.Second)
		code(t, other.answered(t).err, lockapi.CodeLockHeld)
		next := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
		next.running(t)
		go m.Release(context.Background(), "/a", a, "", 0)
		pass(fakeDelay / 2) // the grant is on its way
		o.exit(key, p, late)
		g := next.answered(t)
		pass(5 * fakeDelay)
		if g.err != nil || holder(n.State(), "/a") != b {
			t.Errorf("told %+v, %v; held by %q, want %q", g.grant, g.err, holder(n.State(), "/a"), b)
		}
	})
}

// TestTimeUpAsTheOfficeCloses: the withdrawal comes too late to be taken, so the
// place is in the queue still; to say that the call had no effect would be wrong.
func TestTimeUpAsTheOfficeCloses(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		a, b := two(t, n.master)
		mustHold(t, n.master, "/a", want(a))
		call := begin(t.Context(), n.master, "/a", want(b, waiting(time.Second)))
		pass(time.Second - 5*fakeDelay - 2*time.Millisecond) // begin took some of it
		go n.master.Transfer(context.Background(), "r2")
		code(t, call.answered(t).err, lockapi.CodeOutcomeUnknown)
		if waits(n) != 1 {
			t.Errorf("%d waits; the test shows nothing", waits(n))
		}
	})
}

// TestGrantUnderACallThatWantsSomethingElse: it wakes a call of the pair that
// does not wait for it, when the one that did has gone. It becomes news where
// the place was a kept one, and is taken back otherwise.
func TestGrantUnderACallThatWantsSomethingElse(t *testing.T) {
	for _, tc := range []struct {
		name       string
		kept, late bool // late: the other call comes after the first has gone
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
				p, w := call.enter(call.key)
				if !tc.late {
					call.breakOff(place)
				}
				if _, err := m.Release(t.Context(), "/a", a, "", 0); err != nil || holder(n.State(), "/a") != b {
					t.Fatalf("held by %q, %v", holder(n.State(), "/a"), err)
				}
				call.exit(call.key, p, w)
				pass(5 * fakeDelay)
				k, err := keepalive1(m, b, 0, 0)
				if err != nil || (len(k.Events) == 1) != tc.kept || (holder(n.State(), "/a") == b) != tc.kept {
					t.Errorf("events %+v, held by %q, %v", k.Events, holder(n.State(), "/a"), err)
				}
				if len(call.pairs) != 0 {
					t.Errorf("%d pairs are remembered for ever", len(call.pairs))
				}
			})
		})
	}
}

// TestNewsIsNotToldTwice: a call that wants something else leaves after the
// session has heard of the pair's grant.
func TestNewsIsNotToldTwice(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		o := openOffice(t, n)
		key := pairKey{b, "/a", ""}
		p, w := o.enter(key)
		granted202(t, m, "/a", a, b)
		k, err := keepalive1(m, b, 0, 0)
		if err != nil || len(k.Events) != 1 {
			t.Fatalf("%+v, %v", k.Events, err)
		}
		ack := k.Events[0].Seq
		if k, err := keepalive1(m, b, 0, ack); err != nil || len(k.Events) != 0 {
			t.Fatalf("acknowledged: %+v, %v", k.Events, err)
		}
		o.exit(key, p, w)
		_, err = m.Acquire(t.Context(), "/a", want(b, shared(0)))
		code(t, err, lockapi.CodeConflict)
		if k, err := keepalive1(m, b, 0, ack); err != nil || len(k.Events) != 0 {
			t.Errorf("told again: %+v, %v", k.Events, err)
		}
	})
}

// releaseUnheard releases path behind the office's back: the state is ahead of what the
// office has been told, as it is for a moment after every entry.
func (n *node) releaseUnheard(o *office, session, path string) (released *state.Outcome) {
	n.set(func() {
		next, out := n.state.Apply(uint64(n.applied)+1, n.term, state.Batch{Epoch: o.epoch, LeaseMS: o.opts.leaseMS(),
			Commands: []state.Command{{Operation: &state.Release{Session: session, Path: path}}}})
		n.state, released = next, &out
	})
	return released
}

// TestGrantBehindA202IsNews, also when another call of the pair is answered with
// it, whichever comes first: that call's look, or the news.
func TestGrantBehindA202IsNews(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
			a, b := two(t, m)
			mustHold(t, m, "/a", want(a))
			if g, err := m.Acquire(t.Context(), "/a", want(b, queueing)); err != nil || g.State != lockapi.StateQueued {
				t.Fatalf("%+v, %v", g, err)
			}
			call, place := placed(t, n, "/a", want(b, queueing, waiting(time.Minute)))
			released := n.releaseUnheard(call.office, a, "/a")
			if !ahead {
				call.takeNote(released)
			}
			if g, err := call.queued(place, 0); err != nil || g.State != lockapi.StateHeld {
				t.Fatalf("%+v, %v", g, err)
			}
			if ahead {
				call.takeNote(released)
			}
			call.exit(call.key, call.pair, call.waiter)
			if k, err := keepalive1(m, b, 0, 0); err != nil || len(k.Events) != 1 {
				t.Errorf("ahead %v: %+v, %v; want the grant", ahead, k.Events, err)
			}
			if len(call.pairs) != 0 {
				t.Errorf("ahead %v: %d pairs are remembered for ever", ahead, len(call.pairs))
			}
		})
	}
}

// TestBreakBeforeTheOfficeHearsOfTheGrant: it is taken back all the same.
func TestBreakBeforeTheOfficeHearsOfTheGrant(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		call, place := placed(t, n, "/a", want(b, waiting(time.Minute)))
		released := n.releaseUnheard(call.office, a, "/a")
		call.breakOff(place)
		call.takeNote(released)
		pass(5 * fakeDelay)
		if h := holder(n.State(), "/a"); h != "" {
			t.Errorf("held by %q, which was told nothing", h)
		}
	})
}
