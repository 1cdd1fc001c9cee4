package master

import (
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
			_, err := acquireLock(t, m, "/a", want(b))
			if e := code(t, err, lockapi.CodeLockHeld); len(e.Holders) != 1 || e.Holders[0].Session != a || e.Holders[0].Token != g.Token {
				t.Fatalf("holders %+v", e.Holders)
			}
			code(t, second(acquireLock(t, m, "/a", want("nobody"))), lockapi.CodeSessionNotFound)
			code(t, second(acquireLock(t, m, "/a", want(a, shared(0)))), lockapi.CodeConflict)
			if again := mustHold(t, m, "/a", want(a)); again.Token != g.Token || !again.GrantedAt.Equal(*g.GrantedAt) {
				t.Fatalf("the same claim key got %+v, then %+v", g, again)
			}
			if l, err := m.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/a"}); err != nil || l.State != lockapi.StateHeld || l.Mode != lockapi.Exclusive {
				t.Fatalf("%+v, %v", l, err)
			}
			if l, err := m.ListLocks(t.Context(), &Read{}, &lockapi.ListLocks{Prefix: "/", Limit: 10}); err != nil || len(l.Locks) != 1 {
				t.Fatalf("%+v, %v", l, err)
			}
			if r, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: b}); err != nil || r.Released {
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
		next := begin(t.Context(), m, "/a", want(b, handle("2"), waiting(time.Minute)))
		first.running(t)
		before := n.commands()
		releaseLock(t, m, "/a", a)
		g := first.answered(t)
		if g.err != nil || g.grant.State != lockapi.StateHeld {
			t.Fatalf("%+v, %v", g.grant, g.err)
		}
		next.running(t)
		if n.commands() != before+1 {
			t.Errorf("the hand-over took %d commands", n.commands()-before)
		}
		must(t, second(m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: b, Handle: "1"})))
		if after := next.answered(t); after.err != nil || after.grant.Token <= g.grant.Token {
			t.Errorf("%+v, %v", after.grant, after.err)
		}
	})
}

func TestWaitTimesOutAndLeavesTheQueue(t *testing.T) {
	for _, rate := range []float64{1 - drift, 1, 1 + drift} { // timers only wake the office; its clock decides
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
			wantWaits(t, n, 0)
		}, rate)
	}
}

func TestQueueKeepsThePlace(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		mustHold(t, m, "/a", want(a))
		began := time.Now()
		g, err := acquireLock(t, m, "/a", want(b, queueing, waiting(time.Second)))
		if d := time.Since(began); err != nil || g.State != lockapi.StateQueued || g.Position != 1 || d < time.Second {
			t.Fatalf("%+v, %v after %v", g, err, d)
		}
		if g, err := acquireLock(t, m, "/a", want(a, handle("2"), queueing)); err != nil || g.Position != 2 {
			t.Fatalf("%+v, %v", g, err)
		}
		before := n.commands()
		for range 3 { // a repeated request returns the queue position
			if g, err := acquireLock(t, m, "/a", want(b, queueing)); err != nil || g.State != lockapi.StateQueued || g.Position != 1 {
				t.Fatalf("%+v, %v", g, err)
			}
		}
		if n.commands() != before {
			t.Errorf("asking for the place cost %d commands", n.commands()-before)
		}
		releaseLock(t, m, "/a", a)
		if g := mustHold(t, m, "/a", want(b, queueing)); g.Token == 0 {
			t.Errorf("%+v", g)
		}
	})
}

// TestLockDelay: the lock of an expired session is not granted before the
// lock-delay is over.
func TestLockDelay(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, dead := newSession(t, m, time.Hour), newSession(t, m, 2*time.Second)
		mustHold(t, m, "/a", want(dead, delayed(5*time.Second)))
		mustHold(t, m, "/free", want(dead))
		alive(n, dead, time.Minute)
		over := time.Now().Add(5 * time.Second)
		mustHold(t, m, "/free", want(a)) // its lock had no lock-delay
		_, err := acquireLock(t, m, "/a", want(a))
		if e := code(t, err, lockapi.CodeLockDelayed); e.DelayRemainingMS < 4900 || e.DelayRemainingMS > 5100 {
			t.Errorf("delay_remaining_ms %d", e.DelayRemainingMS)
		}
		pass(2 * time.Second)
		if l, err := m.GetLock(t.Context(), &Read{}, &lockapi.GetLock{Path: "/a"}); err != nil || l.State != lockapi.StateDelayed || l.DelayRemainingMS > 3100 || l.DelayRemainingMS < 2900 {
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
		_, err := acquireLock(t, m, "/a", want(b, shared(0)))
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
		if e := code(t, second(acquireLock(t, m, "/a", want(b, shared(3)))), lockapi.CodeLockHeld); len(e.Holders) != 3 {
			t.Errorf("%+v", e.Holders)
		}
		code(t, second(acquireLock(t, m, "/a", want(b, shared(4)))), lockapi.CodeConflict)
		code(t, second(acquireLock(t, m, "/a", want(a, shared(2), handle("1")))), lockapi.CodeConflict)
		call := begin(t.Context(), m, "/a", want(b, shared(3), waiting(time.Minute)))
		must(t, second(m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a, Handle: "2"})))
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
		code(t, second(acquireLock(t, m, "/a", want(a, shared(0), handle("2")))), lockapi.CodeLockHeld)
		releaseLock(t, m, "/a", a)
		if g := exclusive.answered(t); g.err != nil {
			t.Error(g.err)
		}
	})
}

func TestRelease(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		a, b := two(t, m)
		old := mustHold(t, m, "/a", want(a, handle("h")))
		must(t, second(m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a, Handle: "h"})))
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
			r, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: tc.session, Handle: tc.handle, Token: tc.token})
			if err != nil || r.Released != tc.released {
				t.Errorf("%s: %+v, %v", tc.name, r, err)
			}
		}
		_, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: "nobody", Handle: "h"})
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
		must(t, err)
		check := func(q lockapi.Sequencer) lockapi.SequencerCheck {
			r, err := m.CheckSequencer(t.Context(), &Read{}, &lockapi.CheckSequencer{Sequencer: q})
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
		releaseLock(t, m, "/a", a)
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
			page, err := m.ListLocks(t.Context(), &Read{}, &lockapi.ListLocks{Prefix: "/b/", After: after, Limit: 2})
			must(t, err)
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

// TestWhereTheMasterIs: Known, Locate, Ready and Cell, on the master and
// elsewhere.
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
