package master

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
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
				t.Fatalf("the same handle got %+v, then %+v", g, again)
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

// TestReleaseBehindAnAcquireThatIsOnItsWay: the release is not answered from
// memory; the log has both, in their order.
func TestReleaseBehindAnAcquireThatIsOnItsWay(t *testing.T) {
	for _, queued := range []bool{false, true} { // a grant or a queue position is on its way
		one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
			a, b := two(t, m)
			if queued {
				mustHold(t, m, "/a", want(b))
			}
			c.setDelay(100 * time.Millisecond)
			got := make(chan lockapi.Grant, 1)
			go func() {
				g, _ := acquireLock(t, m, "/a", want(a, queueing))
				got <- g
			}()
			pass(50 * time.Millisecond)
			r, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: a})
			if err != nil || !r.Released {
				t.Errorf("queued %v: %+v, %v; want it to release what the acquire before it got", queued, r, err)
			}
			<-got
			if h, w := n.State().HoldOrWait(a, "/a", ""); h != nil || w != nil {
				t.Errorf("queued %v: the session has %+v, %+v behind its release", queued, h, w)
			}
		})
	}
}

// TestSessionThatCannotBe: a malformed session id counts as unknown, and the
// answer makes no log entry.
func TestSessionThatCannotBe(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		const id = "a\x00b"
		before := n.State().Index
		if _, err := acquireLock(t, m, "/a", want(id)); !errors.Is(err, lockapi.CodeSessionNotFound) {
			t.Errorf("acquire: %v; want %v", err, lockapi.CodeSessionNotFound)
		}
		if _, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: id}); !errors.Is(err, lockapi.CodeSessionNotFound) {
			t.Errorf("release: %v; want %v", err, lockapi.CodeSessionNotFound)
		}
		if err := m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: id}); err != nil {
			t.Errorf("close: %v; it is closed already", err)
		}
		if after := n.State().Index; after != before {
			t.Errorf("this took %d log entries", after-before)
		}
	})
}

// TestCallersAreInTheLog: each command has the principal of its call, also when
// it cleans up after that call. It has none when the master acts unasked.
func TestCallersAreInTheLog(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		ctx := t.Context()
		as := func(who string) Caller { return Caller{Principal: who, RemoteAddr: "192.0.2.1:4711"} }
		s, err := m.OpenSession(ctx, new(as("opens")), &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest()})
		must(t, err)
		other := newSession(t, m, time.Second)
		mustHold(t, m, "/a", want(other, delayed(time.Second)))
		if _, err := m.AcquireLock(ctx, new(as("tries")), &lockapi.AcquireLock{Path: "/a", LockRequest: want(s.ID, waiting(100*time.Millisecond))}); err == nil {
			t.Error("got what is held")
		}
		left, leave := context.WithTimeout(ctx, 100*time.Millisecond)
		defer leave()
		_, _ = m.AcquireLock(left, new(as("leaves")), &lockapi.AcquireLock{Path: "/a", LockRequest: want(s.ID, waiting(time.Minute))})
		pass(5 * time.Second) // until the other session expires and its lock-delay ends
		mustHold(t, m, "/a", want(s.ID))
		if r, err := m.ReleaseLock(ctx, new(as("releases")), &lockapi.ReleaseLock{Path: "/a", Session: s.ID}); err != nil || !r.Released {
			t.Errorf("%+v, %v", r, err)
		}
		must(t, m.CloseSession(ctx, new(as("closes")), &lockapi.CloseSession{Session: s.ID}))
		for who, ops := range map[string][]string{
			"opens": {"open-session"}, "tries": {"acquire", "withdraw"}, "leaves": {"acquire", "withdraw"},
			"releases": {"release"}, "closes": {"close-session"},
		} {
			if got := n.proposedBy(who); !slices.Equal(got, ops) {
				t.Errorf("%q has operations %v in the log, want %v", who, got, ops)
			}
		}
		unasked := n.proposedBy("")
		for _, op := range []string{"expire-session", "end-delay"} {
			if !slices.Contains(unasked, op) {
				t.Errorf("the log has operations %v without a principal, want %s among them", unasked, op)
			}
		}
	})
}

// proposedBy returns the commands that n has proposed for a principal.
func (n *node) proposedBy(principal string) (ops []string) {
	for _, b := range n.sent() {
		for _, c := range b.Commands {
			if c.Caller == principal {
				ops = append(ops, state.Name(c.Operation))
			}
		}
	}
	return ops
}

// TestLaterDelayNeverShortensTheOneInForce: several holders expire one after
// the other. The lock-delay that ends last counts, in this office and, anew, in
// the next.
func TestLaterDelayNeverShortensTheOneInForce(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		n := c.office("r1")
		a, long, short := newSession(t, n.master, time.Hour), newSession(t, n.master, time.Second), newSession(t, n.master, 3*time.Second)
		mustHold(t, n.master, "/a", want(long, shared(0), delayed(20*time.Second)))
		mustHold(t, n.master, "/a", want(short, shared(0), delayed(time.Second)))
		alive(n, long, time.Minute)
		over := time.Now().Add(20 * time.Second)
		alive(n, short, time.Minute)
		refused := func(m *Master, over time.Time) {
			t.Helper()
			_, err := acquireLock(t, m, "/a", want(a))
			left := time.Duration(code(t, err, lockapi.CodeLockDelayed).DelayRemainingMS) * time.Millisecond
			if want := time.Until(over); left < want-2*fakeDelay || left > want+time.Second {
				t.Errorf("delayed for another %v, want %v", left, want)
			}
		}
		refused(n.master, over)
		pass(10 * time.Second)
		refused(n.master, over)
		next := c.office("r2")
		refused(next.master, time.Now().Add(20*time.Second))
		call := begin(t.Context(), next.master, "/a", want(a, waiting(time.Minute)))
		pass(19*time.Second + 900*time.Millisecond)
		call.running(t)
		<-call.done
		if call.err != nil {
			t.Error(call.err)
		}
	})
}

// TestLockDelayIsNeverShort, however fast the master's clock runs within the
// drift.
func TestLockDelayIsNeverShort(t *testing.T) {
	const length = 20 * time.Second
	for _, rate := range []float64{1 - drift, 1, 1 + drift} {
		inCell(t, 1, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			n := c.office("r1")
			a, dead := newSession(t, n.master, time.Hour), newSession(t, n.master, time.Second)
			mustHold(t, n.master, "/a", want(dead, delayed(length)))
			alive(n, dead, time.Minute)
			call := begin(t.Context(), n.master, "/a", want(a, waiting(time.Minute)))
			for range 2 * int(length/time.Second) { // timers run in true time: sessions that are due soon make the office read its clock
				newSession(t, n.master, time.Second)
				pass(500 * time.Millisecond)
			}
			if call.answered(t); call.err != nil {
				t.Fatal(call.err)
			}
			if took := call.took; took < length-5*fakeDelay || took > length*104/100+time.Second {
				t.Errorf("rate %v: granted after %v", rate, took)
			}
		}, rate)
	}
}
