package master

import (
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// What happens in an office is counted, over all offices of the replica.
func TestVitals(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		before := m.Vitals()
		if before.Offices != 1 || !before.Self || before.ID != "r1" || !before.Lease.Held || before.LeaseTerm != m.opts.LeaseTerm || before.Replica.Term != 7 {
			t.Errorf("%+v", before)
		}
		holder, waiter, mortal := newSession(t, m, time.Hour), newSession(t, m, time.Hour), newSession(t, m, time.Second)
		g := mustHold(t, m, "/a", want(holder))
		got := make(chan lockapi.Grant)
		go func() {
			g, err := m.AcquireLock(t.Context(), &Caller{}, &lockapi.AcquireLock{Path: "/a", LockRequest: want(waiter, waiting(time.Minute))})
			if err != nil {
				t.Error(err)
			}
			got <- g
		}()
		pass(5 * time.Second) // the mortal session expires
		must(t, putSized(t, m, "/file", 7))
		if v := m.Vitals(); v.Sessions != 2 || v.Locks != 1 || v.Waiters != 1 || v.Files != 1 || v.Content != 7 || v.Expired != 1 || v.Waited.Count != 0 {
			t.Errorf("%+v", v)
		}
		if _, err := m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: holder, Token: g.Token}); err != nil {
			t.Fatal(err)
		}
		<-got
		if err := m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: holder}); err != nil {
			t.Fatal(err)
		}
		v := m.Vitals()
		if v.Waiters != 0 || v.Expired != 1 || v.Waited.Count != 1 || v.Waited.UpTo[10*time.Second] != 1 || v.Waited.UpTo[time.Second] != 0 {
			t.Errorf("%+v", v)
		}
		if err := m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: waiter}); err != nil {
			t.Fatal(err)
		}
		if v := m.Vitals(); v.Held.Count != 2 || v.Held.UpTo[10*time.Second] != 2 || v.Held.UpTo[time.Second] != 1 {
			t.Errorf("the lock was released after 5 s, and then at once with its holder's session: %+v", v.Held)
		}
		if _, ok := n.State().Session(mortal); ok {
			t.Error("it lives: the test shows nothing")
		}
	})
}

// Each write has waited in the queue and was answered, each read took its time,
// and a keepalive is counted by what it had left.
func TestStages(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, c *fakeCell) {
		before := m.Vitals()
		if before.Barrier.Count != 1 || before.Outwaited.Count != 1 || before.Opening.Count != 1 {
			t.Errorf("steps of the office: %+v, %+v, %+v", before.Barrier, before.Outwaited, before.Opening)
		}
		s := newSession(t, m, 10*time.Second)
		mustHold(t, m, "/a", want(s))
		pass(4 * time.Second)
		for range 2 { // the first answer has the lease count anew
			if _, err := m.KeepAlive(t.Context(), &Caller{}, &lockapi.KeepAlive{Session: s}); err != nil {
				t.Fatal(err)
			}
		}
		for _, stale := range []bool{false, false, true} {
			if _, err := m.GetLock(t.Context(), &Read{Stale: stale}, &lockapi.GetLock{Path: "/a"}); err != nil {
				t.Fatal(err)
			}
		}
		v := m.Vitals()
		if n := v.Queued.Count - before.Queued.Count; n < 2 || v.Replied.Count-before.Replied.Count != n {
			t.Errorf("of two writes, and the master's own: %+v, %+v", v.Queued, v.Replied)
		}
		if v.Linear.Count != 2 || v.Stale.Count != 1 {
			t.Errorf("of three reads: %+v, %+v", v.Linear, v.Stale)
		}
		if v.Kept.Count != 2 || v.Kept.UpTo[time.Second/2] != 0 || v.Kept.UpTo[7*time.Second/10] != 1 || v.Kept.UpTo[19*time.Second/20] != 1 {
			t.Errorf("keepalives at 6/10 and the whole of the ttl: %+v", v.Kept)
		}
	})
}

// What was left of the lease when it was renewed shows how near its end came:
// nothing where it had lapsed.
func TestRenewalMargin(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, c *fakeCell) {
		term := m.opts.LeaseTerm
		pass(20 * term)
		v := m.Vitals()
		if n := v.Margin.Count; n < 60 || v.Margin.UpTo[term/2] > 0 || v.Margin.UpTo[4*term/5] < n-1 || v.Committed.Count != n {
			t.Errorf("in good times: %+v, %+v", v.Margin, v.Committed)
		}
		c.setDelay(3 * term / 2) // of which the lease cannot be renewed in time
		pass(20 * term)
		w := m.Vitals()
		if w.Margin.UpTo[0] == 0 || w.Committed.Sum-v.Committed.Sum < time.Duration(w.Committed.Count-v.Committed.Count-2)*term {
			t.Errorf("in bad times: %+v, %+v", w.Margin, w.Committed)
		}
	})
}
