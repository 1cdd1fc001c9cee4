package master

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// wantMetrics checks gauges and counters, each a name and a value.
func wantMetrics(t *testing.T, m *Master, want ...string) {
	t.Helper()
	set := m.Metrics()
	for _, line := range want {
		name, _, _ := strings.Cut(line, " ")
		if got := fmt.Sprint(name, " ", set.Value(name)); got != line {
			t.Errorf("%s; want %s", got, line)
		}
	}
}

// TestVitals counts the events of all offices of the replica.
func TestVitals(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		wantMetrics(t, m, "stout_offices_total 1", "stout_is_master 1", "stout_has_master 1", "stout_ready 1", "stout_epoch 1",
			"stout_lease_held 1", "stout_lease_term_seconds "+fmt.Sprint(m.opts.LeaseTerm.Seconds()))
		holder, waiter, mortal := newSession(t, m, time.Hour), newSession(t, m, time.Hour), newSession(t, m, time.Second)
		g := mustHold(t, m, "/a", want(holder))
		got := make(chan lockapi.Grant)
		go func() {
			g, err := acquireLock(t, m, "/a", want(waiter, waiting(time.Minute)))
			if err != nil {
				t.Error(err)
			}
			got <- g
		}()
		pass(5 * time.Second) // the mortal session expires
		must(t, putSized(t, m, "/file", 7))
		wantMetrics(t, m, "stout_sessions 2", "stout_locks 1", "stout_waiters 1", "stout_files 1", "stout_content_bytes 7", "stout_sessions_expired_total 1",
			"stout_wait_cycles 0")
		if waited := m.vitals.waited.Snapshot(); waited.Count != 0 {
			t.Errorf("%+v", waited)
		}
		must(t, second(m.ReleaseLock(t.Context(), &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: holder, Token: g.Token})))
		<-got
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: holder}))
		wantMetrics(t, m, "stout_waiters 0", "stout_sessions_expired_total 1")
		if waited := m.vitals.waited.Snapshot(); waited.Count != 1 || waited.UpTo[10*time.Second] != 1 || waited.UpTo[time.Second] != 0 {
			t.Errorf("%+v", waited)
		}
		must(t, m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: waiter}))
		if held := m.vitals.held.Snapshot(); held.Count != 2 || held.UpTo[10*time.Second] != 2 || held.UpTo[time.Second] != 1 {
			t.Errorf("the lock was released after 5 s, and then at once with its holder's session: %+v", held)
		}
		if _, ok := n.State().Session(mortal); ok {
			t.Error("it lives: the test shows nothing")
		}
	})
}

// Each write waits in the queue and is answered, and each read takes time. A
// keepalive counts by the rest of its session's lease.
func TestStages(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, c *fakeCell) {
		v := m.vitals
		for _, step := range []*metric.Histogram{v.barrier, v.outwaited, v.opening} {
			if s := step.Snapshot(); s.Count != 1 {
				t.Errorf("a step of the office: %+v", s)
			}
		}
		queued, replied := v.queued.Snapshot().Count, v.replied.Snapshot().Count
		s := newSession(t, m, 10*time.Second)
		mustHold(t, m, "/a", want(s))
		pass(4 * time.Second)
		for range 2 { // the first answer restarts the lease
			must(t, second(m.KeepAlive(t.Context(), &Caller{}, &lockapi.KeepAlive{Session: s})))
		}
		for _, stale := range []bool{false, false, true} {
			must(t, second(m.GetLock(t.Context(), &Read{Stale: stale}, &lockapi.GetLock{Path: "/a"})))
		}
		if n := v.queued.Snapshot().Count - queued; n < 2 || v.replied.Snapshot().Count-replied != n {
			t.Errorf("of two writes, and the master's own: %+v, %+v", v.queued.Snapshot(), v.replied.Snapshot())
		}
		if linear, stale := v.linear.Snapshot(), v.stale.Snapshot(); linear.Count != 2 || stale.Count != 1 {
			t.Errorf("of three reads: %+v, %+v", linear, stale)
		}
		if kept := v.keptAlive.Snapshot(); kept.Count != 2 || kept.UpTo[time.Second/2] != 0 || kept.UpTo[7*time.Second/10] != 1 || kept.UpTo[19*time.Second/20] != 1 {
			t.Errorf("keepalives at 6/10 and the whole of the ttl: %+v", kept)
		}
	})
}

// The rest of the lease at its renewal shows how close the lease was to its
// end: zero if it had lapsed.
func TestRenewalMargin(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, c *fakeCell) {
		term := m.opts.LeaseTerm
		pass(20 * term)
		margin, committed := m.vitals.margin.Snapshot(), m.vitals.committed.Snapshot()
		if n := margin.Count; n < 60 || margin.UpTo[term/2] > 0 || margin.UpTo[4*term/5] < n-1 || committed.Count != n {
			t.Errorf("in good times: %+v, %+v", margin, committed)
		}
		c.setDelay(3 * term / 2) // the lease cannot be renewed in time
		pass(20 * term)
		worse, slower := m.vitals.margin.Snapshot(), m.vitals.committed.Snapshot()
		if worse.UpTo[0] == 0 || slower.Sum-committed.Sum < time.Duration(slower.Count-committed.Count-2)*term {
			t.Errorf("in bad times: %+v, %+v", worse, slower)
		}
		if n := m.vitals.lapses.Load(); n == 0 || n != m.inOffice().lapses.Load() {
			t.Errorf("%d lapses are counted", n)
		}
	})
}

// TestHandOverIsNoLapse: entries that are under way when a master gives its office
// up count as no renewal of its lease.
func TestHandOverIsNoLapse(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		know(c)
		n := c.office("r1")
		s := newSession(t, n.master, time.Minute)
		c.setDelay(leaseTerm / 4)
		answered := make(chan error, 1)
		go func() {
			_, err := acquireLock(t, n.master, "/a", lockapi.NewLockRequest(s))
			answered <- err
		}()
		pass(leaseTerm / 16)
		must(t, second(n.master.TransferMastership(t.Context(), new(root(Operate)), &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: "r2"}})))
		must(t, <-answered)
		pass(2 * leaseTerm)
		if margin, lapses := n.master.vitals.margin.Snapshot(), n.master.vitals.lapses.Load(); margin.UpTo[0] != 0 || lapses != 0 {
			t.Errorf("a hand-over counts as %d lapses: %+v", lapses, margin)
		}
	})
}

// TestBackupHasWhatWasAcknowledged, describes its contents, and can be
// restored.
func TestBackupHasWhatWasAcknowledged(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s := newSession(t, m, time.Minute)
		req := lockapi.NewLockRequest(s)
		g, err := acquireLock(t, m, "/a", req)
		must(t, err)
		b, err := m.GetBackup(t.Context(), &Read{}, &lockapi.GetBackup{})
		must(t, err)
		h := b.Header
		if h.Stale || h.Token != g.Token || h.Revision != n.State().Revision || h.Index != n.State().Index || h.Replica != "r1" ||
			h.Contents != (lockapi.BackupContents{Sessions: 1, Holds: 1, Locks: 1}) {
			t.Errorf("%+v", h)
		}
		var raw bytes.Buffer
		must(t, b.Snapshot(&raw))
		back, err := state.Restore(&raw)
		if err != nil || back.LastToken() != g.Token {
			t.Errorf("%v", err)
		}
		own, err := m.OwnBackup()
		if err != nil || own.Header.Stale || own.Header.Revision != h.Revision {
			t.Errorf("%+v, %v", own.Header, err)
		}
	})
}

// TestBackupOfAReplica: it is the replica's own state and marked so; only the
// master gives the cell's.
func TestBackupOfAReplica(t *testing.T) {
	inCell(t, 3, Options{Drift: 0.01}, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		for _, n := range c.nodes {
			own, err := n.master.OwnBackup()
			if err != nil || own.Header.Stale != (n.id != "r1") || own.Header.Replica != n.id {
				t.Errorf("%s: %+v, %v", n.id, own.Header, err)
			}
			n.Lag(true)
			if _, err := n.master.OwnBackup(); !errors.Is(err, lockapi.CodeNoMaster) {
				t.Errorf("%s, which has not caught up since its start: %v", n.id, err)
			}
			n.Lag(false)
			_, err = n.master.GetBackup(t.Context(), &Read{Stale: true}, &lockapi.GetBackup{})
			if n.id == "r1" && err != nil || n.id != "r1" && !errors.Is(err, lockapi.CodeNoMaster) {
				t.Errorf("%s: %v", n.id, err)
			}
		}
	})
}
