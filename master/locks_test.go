package master

import (
	"context"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// two opens two sessions that outlive the test.
func two(t *testing.T, m *Master) (a, b string) {
	t.Helper()
	return newSession(t, m, time.Hour), newSession(t, m, time.Hour)
}

// TestRefusalsAndReadsCostNoEntry while the lease is valid.
func TestRefusalsAndReadsCostNoEntry(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		g := mustHold(t, m, "/a", want(a))
		before := n.commands()
		for range 10 {
			_, err := m.Acquire(t.Context(), "/a", want(b))
			if e := code(t, err, lockapi.CodeLockHeld); len(e.Holders) != 1 || e.Holders[0].Session != a || e.Holders[0].Token != g.Token {
				t.Fatalf("holders %+v", e.Holders)
			}
			_, err = m.Acquire(t.Context(), "/a", want("nobody"))
			code(t, err, lockapi.CodeSessionNotFound)
			_, err = m.Acquire(t.Context(), "/a", want(a, shared(0)))
			code(t, err, lockapi.CodeConflict)
			if again := mustHold(t, m, "/a", want(a)); again.Token != g.Token || !again.GrantedAt.Equal(*g.GrantedAt) {
				t.Fatalf("the same pair got %+v, then %+v", g, again)
			}
			if l, err := m.Lock(t.Context(), "/a", false); err != nil || l.State != lockapi.StateHeld || l.Mode != lockapi.Exclusive {
				t.Fatalf("%+v, %v", l, err)
			}
			if l, err := m.Locks(t.Context(), "/", "", 10, false); err != nil || len(l.Locks) != 1 {
				t.Fatalf("%+v, %v", l, err)
			}
			if r, err := m.Release(t.Context(), "/a", b, "", 0); err != nil || r.Released {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if cost := n.commands() - before; cost != 0 {
			t.Errorf("%d commands in the log", cost)
		}
		if other := mustHold(t, m, "/b", want(a)); other.Token <= g.Token || n.commands() != before+1 {
			t.Errorf("a grant: token %d after %d, %d commands", other.Token, g.Token, n.commands()-before)
		}
	})
}

// TestWaitersAreServedInOrder, each by the release's own commit.
func TestWaitersAreServedInOrder(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		first := begin(t.Context(), m, "/a", want(b, handle("1"), waiting(time.Minute)))
		second := begin(t.Context(), m, "/a", want(b, handle("2"), waiting(time.Minute)))
		first.running(t)
		before := n.commands()
		if _, err := m.Release(t.Context(), "/a", a, "", 0); err != nil {
			t.Fatal(err)
		}
		g := first.answered(t)
		if g.err != nil || g.grant.State != lockapi.StateHeld {
			t.Fatalf("%+v, %v", g.grant, g.err)
		}
		second.running(t)
		if n.commands() != before+1 {
			t.Errorf("the hand-over took %d commands", n.commands()-before)
		}
		if _, err := m.Release(t.Context(), "/a", b, "1", 0); err != nil {
			t.Fatal(err)
		}
		if after := second.answered(t); after.err != nil || after.grant.Token <= g.grant.Token {
			t.Errorf("%+v, %v", after.grant, after.err)
		}
	})
}

func TestWaitTimesOutAndLeavesTheQueue(t *testing.T) {
	for _, rate := range []float64{1 - drift, 1, 1 + drift} { // timers only wake, the clock decides
		inCell(t, 1, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			n := c.office("r1")
			a, b := two(t, n.master)
			mustHold(t, n.master, "/a", want(a))
			call := begin(t.Context(), n.master, "/a", want(b, waiting(time.Second)))
			call.running(t)
			pass(time.Second)
			if e := code(t, call.answered(t).err, lockapi.CodeLockHeld); len(e.Holders) != 1 {
				t.Errorf("holders %+v", e.Holders)
			}
			if w := waits(n); w != 0 {
				t.Errorf("%d waits stay in the queue", w)
			}
		}, rate)
	}
}

func TestQueueKeepsThePlace(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		began := time.Now()
		g, err := m.Acquire(t.Context(), "/a", want(b, queueing, waiting(time.Second)))
		if d := time.Since(began); err != nil || g.State != lockapi.StateQueued || g.Position != 1 || d < time.Second {
			t.Fatalf("%+v, %v after %v", g, err, d)
		}
		if g, err := m.Acquire(t.Context(), "/a", want(a, handle("2"), queueing)); err != nil || g.Position != 2 {
			t.Fatalf("%+v, %v", g, err)
		}
		before := n.commands()
		for range 3 { // asking again tells the place
			if g, err := m.Acquire(t.Context(), "/a", want(b, queueing)); err != nil || g.State != lockapi.StateQueued || g.Position != 1 {
				t.Fatalf("%+v, %v", g, err)
			}
		}
		if n.commands() != before {
			t.Errorf("asking for the place cost %d commands", n.commands()-before)
		}
		if _, err := m.Release(t.Context(), "/a", a, "", 0); err != nil {
			t.Fatal(err)
		}
		if g := mustHold(t, m, "/a", want(b, queueing)); g.Token == 0 {
			t.Errorf("%+v", g)
		}
	})
}

// TestTwoCallsOfOnePair share one place: it lasts as long as one of them waits,
// and both are told of the grant.
func TestTwoCallsOfOnePair(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		short := begin(t.Context(), m, "/a", want(b, waiting(time.Second)))
		long := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
		longer := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
		pass(time.Second)
		code(t, short.answered(t).err, lockapi.CodeLockHeld)
		if waits(n) != 1 {
			t.Fatalf("%d waits", waits(n))
		}
		if _, err := m.Release(t.Context(), "/a", a, "", 0); err != nil {
			t.Fatal(err)
		}
		one, other := long.answered(t), longer.answered(t)
		if one.err != nil || other.err != nil || one.grant.Token != other.grant.Token {
			t.Errorf("%+v %v, %+v %v", one.grant, one.err, other.grant, other.err)
		}
	})
}

// TestCallsOfOnePairThatEndTogether: each may think that the other one keeps
// the place; still it goes.
func TestCallsOfOnePairThatEndTogether(t *testing.T) {
	for _, how := range []string{"time", "break", "both", "conflict"} {
		t.Run(how, func(t *testing.T) {
			one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
				a, b := two(t, m)
				mustHold(t, m, "/a", want(a))
				for range 50 {
					ctx, cancel := context.WithCancel(t.Context())
					wait := time.Second
					if how == "break" {
						wait = time.Minute
					}
					var calls []*acquiring
					var until time.Time
					for i := range 4 {
						if i == 0 {
							until = time.Now().Add(wait)
						}
						calls = append(calls, begin(ctx, m, "/a", want(b, waiting(time.Until(until)))))
					}
					switch how {
					case "time":
						pass(time.Until(until))
					case "both":
						pass(time.Until(until))
						cancel()
					case "conflict": // a call that wants something else outlives them
						go cancel()
						_, _ = m.Acquire(t.Context(), "/a", want(b, shared(0), waiting(time.Second)))
					}
					cancel()
					for _, c := range calls {
						c.answered(t)
					}
					pass(5 * fakeDelay)
					if w := waits(n); w != 0 {
						t.Fatalf("%d waits stay in the queue with no call", w)
					}
				}
			})
		})
	}
}

// TestBrokenWaiterLeaves, and what it is granted in that moment is taken back.
func TestBrokenWaiterLeaves(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		for _, race := range []time.Duration{-1, 0, fakeDelay / 2, fakeDelay, fakeDelay * 3 / 2, 2 * fakeDelay} {
			mustHold(t, m, "/a", want(a))
			ctx, cancel := context.WithCancel(t.Context())
			call := begin(ctx, m, "/a", want(b, waiting(time.Minute)))
			call.running(t)
			if race < 0 {
				cancel()
			} else {
				go func() { pass(race); cancel() }()
				if _, err := m.Release(t.Context(), "/a", a, "", 0); err != nil {
					t.Fatal(err)
				}
			}
			told := call.answered(t).err == nil
			pass(5 * fakeDelay)
			held := holder(n.State(), "/a") == b
			if held != told {
				t.Errorf("break %v after the release: told %v, holds %v", race, told, held)
			}
			if waits(n) != 0 {
				t.Errorf("break %v after the release: it stays in the queue", race)
			}
			cancel()
			for _, s := range []string{a, b} {
				if _, err := m.Release(t.Context(), "/a", s, "", 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestRetryBehindABreakIsNotUndone: a client whose connection broke sends the
// call again; what it is told then stays true.
func TestRetryBehindABreakIsNotUndone(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		for i := range 60 {
			race := time.Duration(i%20) * fakeDelay / 10
			mustHold(t, m, "/a", want(a))
			ctx, cancel := context.WithCancel(t.Context())
			call := begin(ctx, m, "/a", want(b, waiting(time.Minute)))
			go func() { pass(race); cancel() }()
			go m.Release(context.Background(), "/a", a, "", 0)
			<-call.done
			again := mustHold(t, m, "/a", want(b, waiting(time.Minute)))
			pass(5 * fakeDelay)
			if h, ok := n.State().HoldByToken("/a", again.Token); !ok || h.Session != b {
				t.Fatalf("retry %d: told of token %d, which is not held", i, again.Token)
			}
			if _, err := m.Release(t.Context(), "/a", b, "", 0); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
	})
}

// TestBrokenCallOfAPairWithAnother leaves the place to the other.
func TestBrokenCallOfAPairWithAnother(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		ctx, cancel := context.WithCancel(t.Context())
		broken := begin(ctx, m, "/a", want(b, waiting(time.Minute)))
		stays := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
		cancel()
		broken.answered(t)
		if waits(n) != 1 {
			t.Fatalf("%d waits", waits(n))
		}
		if _, err := m.Release(t.Context(), "/a", a, "", 0); err != nil {
			t.Fatal(err)
		}
		if g := stays.answered(t); g.err != nil {
			t.Error(g.err)
		}
	})
}

// TestBrokenCallOfAKeptPlace: the place stays, and its grant is news even when
// it came in the moment of the break.
func TestBrokenCallOfAKeptPlace(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		for _, race := range []time.Duration{-1, fakeDelay / 2, fakeDelay} {
			a, b := two(t, m)
			mustHold(t, m, "/a", want(a))
			ctx, cancel := context.WithCancel(t.Context())
			call := begin(ctx, m, "/a", want(b, queueing, waiting(time.Minute)))
			if race < 0 {
				cancel()
				call.answered(t)
			} else {
				go func() { pass(race); cancel() }()
			}
			if _, err := m.Release(t.Context(), "/a", a, "", 0); err != nil {
				t.Fatal(err)
			}
			told := call.answered(t).err == nil
			k, err := keepalive1(m, b, 0, 0)
			if err != nil || (len(k.Events) == 1) == told {
				t.Errorf("break after %v: told by the call %v, %d events, %v", race, told, len(k.Events), err)
			}
			cancel()
			if err := m.CloseSession(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestDeleteOfAWaitAnswersItsCall with 423, at once.
func TestDeleteOfAWaitAnswersItsCall(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		call := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
		if r, err := m.Release(t.Context(), "/a", b, "", 0); err != nil || !r.Released {
			t.Fatalf("%+v, %v", r, err)
		}
		code(t, call.answered(t).err, lockapi.CodeLockHeld)
		if waits(n) != 0 {
			t.Error("it stays in the queue")
		}
	})
}

// TestOrphanedWaits: those of an earlier office go after the grace, also when
// they were granted meanwhile, unless their call comes back.
func TestOrphanedWaits(t *testing.T) {
	for _, tc := range []struct {
		name                string
		granted, back, kept bool
		stays               bool
	}{
		{name: "left alone"},
		{name: "granted", granted: true},
		{name: "asked for again", back: true, stays: true},
		{name: "granted and asked for again", granted: true, back: true, stays: true},
		{name: "kept", kept: true, stays: true},
		{name: "kept and granted", kept: true, granted: true, stays: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				old := c.office("r1")
				a, b := two(t, old.master)
				mustHold(t, old.master, "/a", want(a))
				request := want(b, waiting(10*time.Minute))
				request.Queue = tc.kept
				lost := begin(t.Context(), old.master, "/a", request)
				n := c.office("r2")
				code(t, lost.answered(t).err, lockapi.CodeOutcomeUnknown)
				pass(time.Second)
				if tc.granted {
					if _, err := n.master.Release(t.Context(), "/a", a, "", 0); err != nil {
						t.Fatal(err)
					}
				}
				if tc.back {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					begin(ctx, n.master, "/a", request)
				}
				pass(orphanGrace + time.Second)
				stays := waits(n) == 1
				if tc.granted {
					stays = holder(n.State(), "/a") == b
				}
				if stays != tc.stays {
					t.Errorf("stays: %v, want %v", stays, tc.stays)
				}
			})
		})
	}
}

// TestOrphanAskedForOtherwise: a call of the pair in another mode is refused,
// and the wait that nobody wants any more goes.
func TestOrphanAskedForOtherwise(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		old := c.office("r1")
		a, b := two(t, old.master)
		mustHold(t, old.master, "/a", want(a))
		begin(t.Context(), old.master, "/a", want(b, waiting(10*time.Minute)))
		n := c.office("r2")
		_, err := n.master.Acquire(t.Context(), "/a", want(b, shared(0)))
		code(t, err, lockapi.CodeConflict)
		pass(orphanGrace + time.Second)
		if waits(n) != 0 {
			t.Error("the wait stays without a call")
		}
	})
}

// TestLockDelay: nobody gets the lock of an expired session before it is over.
func TestLockDelay(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, dead := newSession(t, m, time.Hour), newSession(t, m, 2*time.Second)
		mustHold(t, m, "/a", want(dead, delayed(5*time.Second)))
		mustHold(t, m, "/free", want(dead))
		alive(n, dead, time.Minute)
		over := time.Now().Add(5 * time.Second)
		mustHold(t, m, "/free", want(a)) // no lock-delay was asked for
		_, err := m.Acquire(t.Context(), "/a", want(a))
		if e := code(t, err, lockapi.CodeLockDelayed); e.DelayRemainingMS < 4900 || e.DelayRemainingMS > 5100 {
			t.Errorf("delay_remaining_ms %d", e.DelayRemainingMS)
		}
		pass(2 * time.Second)
		if l, err := m.Lock(t.Context(), "/a", false); err != nil || l.State != lockapi.StateDelayed || l.DelayRemainingMS > 3100 || l.DelayRemainingMS < 2900 {
			t.Errorf("%+v, %v", l, err)
		}
		call := begin(t.Context(), m, "/a", want(a, waiting(time.Minute)))
		call.running(t)
		<-call.done
		if late := time.Since(over); call.err != nil || late < -2*fakeDelay || late > time.Second {
			t.Errorf("granted %v after the end of the lock-delay, %v", late, call.err)
		}
	})
}

// TestLockDelayBesideOtherHolders: new grants are refused, as held.
func TestLockDelayBesideOtherHolders(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		dead := newSession(t, m, time.Second)
		mustHold(t, m, "/a", want(a, shared(0)))
		mustHold(t, m, "/a", want(dead, shared(0), delayed(5*time.Second)))
		alive(n, dead, time.Minute)
		_, err := m.Acquire(t.Context(), "/a", want(b, shared(0)))
		if e := code(t, err, lockapi.CodeLockHeld); e.DelayRemainingMS < 4900 || len(e.Holders) != 1 {
			t.Errorf("%+v", e)
		}
		pass(6 * time.Second)
		mustHold(t, m, "/a", want(b, shared(0)))
	})
}

func TestSemaphore(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a, b := two(t, m)
		tokens := map[uint64]bool{}
		for _, h := range []string{"1", "2", "3"} {
			tokens[mustHold(t, m, "/a", want(a, shared(3), handle(h))).Token] = true
		}
		if len(tokens) != 3 {
			t.Errorf("tokens %v", tokens)
		}
		_, err := m.Acquire(t.Context(), "/a", want(b, shared(3)))
		if e := code(t, err, lockapi.CodeLockHeld); len(e.Holders) != 3 {
			t.Errorf("%+v", e.Holders)
		}
		_, err = m.Acquire(t.Context(), "/a", want(b, shared(4)))
		code(t, err, lockapi.CodeConflict)
		_, err = m.Acquire(t.Context(), "/a", want(a, shared(2), handle("1")))
		code(t, err, lockapi.CodeConflict)
		call := begin(t.Context(), m, "/a", want(b, shared(3), waiting(time.Minute)))
		if _, err := m.Release(t.Context(), "/a", a, "2", 0); err != nil {
			t.Fatal(err)
		}
		if g := call.answered(t); g.err != nil {
			t.Error(g.err)
		}
	})
}

// TestSharedNeverOvertakes an earlier exclusive request.
func TestSharedNeverOvertakes(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a, shared(0)))
		exclusive := begin(t.Context(), m, "/a", want(b, waiting(time.Minute)))
		_, err := m.Acquire(t.Context(), "/a", want(a, shared(0), handle("2")))
		code(t, err, lockapi.CodeLockHeld)
		if _, err := m.Release(t.Context(), "/a", a, "", 0); err != nil {
			t.Fatal(err)
		}
		if g := exclusive.answered(t); g.err != nil {
			t.Error(g.err)
		}
	})
}

func TestRelease(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		old := mustHold(t, m, "/a", want(a, handle("h")))
		if _, err := m.Release(t.Context(), "/a", a, "h", 0); err != nil {
			t.Fatal(err)
		}
		g := mustHold(t, m, "/a", want(a, handle("h")))
		for _, tc := range []struct {
			name, session, handle string
			token                 uint64
			released              bool
		}{
			{"foreign handle", a, "other", 0, false},
			{"foreign session", b, "h", 0, false},
			{"old token", a, "h", old.Token, false},
			{"this grant", a, "h", g.Token, true},
			{"again", a, "h", g.Token, false},
		} {
			r, err := m.Release(t.Context(), "/a", tc.session, tc.handle, tc.token)
			if err != nil || r.Released != tc.released {
				t.Errorf("%s: %+v, %v", tc.name, r, err)
			}
		}
		_, err := m.Release(t.Context(), "/a", "nobody", "h", 0)
		code(t, err, lockapi.CodeSessionNotFound)
		if n.State().LockCount() != 0 {
			t.Error("a free lock leaves something behind")
		}
	})
}

// TestSequencer is valid while its very grant is held.
func TestSequencer(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a, _ := two(t, m)
		g := mustHold(t, m, "/a", want(a))
		q, err := lockapi.ParseSequencer(g.Sequencer)
		if err != nil {
			t.Fatal(err)
		}
		check := func(q lockapi.Sequencer) lockapi.SequencerCheck {
			r, err := m.CheckSequencer(t.Context(), q, false)
			if err != nil || r.Valid != (r.Reason == "") {
				t.Errorf("%+v, %v", r, err)
			}
			return r
		}
		wrong := q
		wrong.Mode = lockapi.Shared
		if !check(q).Valid || check(wrong).Valid {
			t.Error("a sequencer is valid in its own mode only")
		}
		if _, err := m.Release(t.Context(), "/a", a, "", 0); err != nil {
			t.Fatal(err)
		}
		again := mustHold(t, m, "/a", want(a))
		if check(q).Valid || again.Token <= g.Token {
			t.Error("an old sequencer is valid under a new grant")
		}
	})
}

// TestPages walks all locks of a prefix in bytewise order.
func TestPages(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a, _ := two(t, m)
		for _, p := range []string{"/b/2", "/a", "/b/10", "/b", "/c", "/b/1"} {
			mustHold(t, m, p, want(a))
		}
		var got []string
		for after := ""; ; {
			page, err := m.Locks(t.Context(), "/b/", after, 2, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range page.Locks {
				got = append(got, l.Path)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if len(got) != 3 || got[0] != "/b/1" || got[1] != "/b/10" || got[2] != "/b/2" {
			t.Errorf("%v", got)
		}
	})
}

// TestWhereTheMasterIs: Known, Locate, Ready and Cell, on the master and beside it.
func TestWhereTheMasterIs(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		found := make(chan Location, 1)
		go func() { loc, _ := c.node("r3").master.Locate(t.Context()); found <- loc }()
		n := c.office("r1")
		a, _ := two(t, n.master)
		mustHold(t, n.master, "/a", want(a))
		if loc := <-found; loc.ID != "r1" || loc.Self || loc.URL != "http://r1" {
			t.Errorf("a call that waited for the election: %+v", loc)
		}
		if loc := n.master.Known(); !loc.Self || loc.ID != "r1" || loc.Epoch != 1 {
			t.Errorf("on the master: %+v", loc)
		}
		for _, r := range c.nodes {
			if err := r.master.Ready(); err != nil {
				t.Errorf("%s: %v", r.id, err)
			}
		}
		cell := n.master.Cell()
		if cell.Master == nil || cell.Master.ID != "r1" || !cell.Lease.Held || *cell.Sessions != 2 || *cell.Locks != 1 || *cell.Waiters != 0 || cell.Lease.TermMS != 2000 {
			t.Errorf("%+v", cell)
		}
		if other := c.node("r2").master.Cell(); other.Master == nil || other.Lease.Held || other.Sessions != nil || other.Replicas[0].Role != lockapi.RoleMaster {
			t.Errorf("%+v", other)
		}
		c.cutOff("r1", true)
		pass(3 * time.Second)
		code(t, n.master.Ready(), lockapi.CodeNoMaster)
	})
}

// TestAcquireSurvivesAChangeOfMaster: the repeated call gets the same grant.
func TestAcquireSurvivesAChangeOfMaster(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		old := c.office("r1")
		a, _ := two(t, old.master)
		g := mustHold(t, old.master, "/a", want(a))
		n := c.office("r2")
		if again := mustHold(t, n.master, "/a", want(a)); again.Token != g.Token {
			t.Errorf("token %d, then %d", g.Token, again.Token)
		}
		if other := mustHold(t, n.master, "/b", want(a)); other.Token <= g.Token {
			t.Errorf("token %d after %d", other.Token, g.Token)
		}
	})
}

// TestGrantInTheMomentOfTheBreak: the office has woken the call, the call finds
// its caller gone before it looks. A grant that nobody was told of is taken
// back; that of a kept place becomes news.
func TestGrantInTheMomentOfTheBreak(t *testing.T) {
	for _, kept := range []bool{false, true} {
		one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
			a, b := two(t, m)
			mustHold(t, m, "/a", want(a))
			r := want(b, waiting(time.Minute))
			r.Queue = kept
			o := openOffice(t, n)
			call := acquire{office: o, req: &r, key: pairKey{b, "/a", ""}, mode: stateMode(r.Mode), until: n.clock() + time.Minute}
			call.pair, call.waiter = o.enter(call.key)
			place, err := call.decide()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Release(t.Context(), "/a", a, "", 0); err != nil {
				t.Fatal(err)
			}
			call.broken(place.Wait.Seq)
			o.exit(call.key, call.pair, call.waiter)
			pass(5 * fakeDelay)
			k, err := keepalive1(m, b, 0, 0)
			if err != nil || (len(k.Events) == 1) != kept || (holder(n.State(), "/a") == b) != kept {
				t.Errorf("kept %v: events %+v, held by %q, %v", kept, k.Events, holder(n.State(), "/a"), err)
			}
			if len(o.pairs) != 0 {
				t.Errorf("kept %v: %d pairs are remembered for ever", kept, len(o.pairs))
			}
		})
	}
}
