package master

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// watching makes a watch, which must succeed.
func watching(t *testing.T, m *Master, f EventFilter) EventWatch {
	t.Helper()
	w, err := m.WatchEvents(f)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// ownAnswers are the answers that a replica gives from its own state, as master
// or not.
func ownAnswers(m *Master) map[string]func(Caller) error {
	ctx := context.Background()
	stale := func(by Caller) Read { return Read{Caller: new(by), Stale: true} }
	return map[string]func(Caller) error{
		"lock":  func(by Caller) error { return second(m.GetLock(ctx, new(stale(by)), &lockapi.GetLock{Path: "/p/a"})) },
		"locks": func(by Caller) error { return second(m.ListLocks(ctx, new(stale(by)), &lockapi.ListLocks{Limit: 1})) },
		"sequencer": func(by Caller) error {
			return second(m.CheckSequencer(ctx, new(stale(by)), &lockapi.CheckSequencer{Sequencer: lockapi.Sequencer{Path: "/p/a", Token: 1}}))
		},
		"sessions": func(by Caller) error {
			return second(m.ListSessions(ctx, new(stale(by)), &lockapi.ListSessions{Limit: 1}))
		},
		"files":     func(by Caller) error { return second(m.ListFiles(ctx, new(stale(by)), &lockapi.ListFiles{Limit: 1})) },
		"deadlocks": func(by Caller) error { return second(m.FindDeadlocks(ctx, new(stale(by)), &lockapi.FindDeadlocks{})) },
		"rules":     func(by Caller) error { return second(m.ListRules(ctx, new(stale(by)), &lockapi.ListRules{Limit: 1})) },
		"check": func(by Caller) error {
			return second(m.CheckAccess(ctx, new(stale(by)), &lockapi.CheckAccess{Path: "/p"}))
		},
		"groups":      func(by Caller) error { return second(m.ListGroups(ctx, new(stale(by)), &lockapi.ListGroups{})) },
		"tokens":      func(by Caller) error { return second(m.ListTokens(ctx, new(stale(by)), &lockapi.ListTokens{Limit: 1})) },
		"cell access": func(by Caller) error { return second(m.GetCellAccess(ctx, new(stale(by)), &lockapi.GetCellAccess{})) },
		"who am I":    func(by Caller) error { return second(m.GetWhoAmI(ctx, new(stale(by)), &lockapi.GetWhoAmI{})) },
		"revision":    func(by Caller) error { return second(m.GetRevision(ctx, new(stale(by)), &lockapi.GetRevision{})) },
		"members":     func(by Caller) error { return second(m.ListMembers(ctx, new(stale(by)), &lockapi.ListMembers{})) },
		"URLs":        func(by Caller) error { return second(m.GetURLs(ctx, new(stale(by)), &lockapi.GetURLs{})) },
		"history": func(by Caller) error {
			return second(m.GetHistory(ctx, &Read{Caller: new(by)}, &lockapi.GetHistory{Path: "/p/a", Limit: 1}))
		},
		"events": func(by Caller) error {
			w, err := m.WatchEvents(EventFilter{}.For(by))
			if err != nil {
				return err
			}
			defer w.Close()
			return third(w.Read(0, 1, 1<<20))
		},
	}
}

func third[T, U any](_ T, _ U, err error) error { return err }

// wantOwnAnswers checks that a replica answers from its own state, or the
// error.
func wantOwnAnswers(t *testing.T, when string, n *node, by Caller, want error) {
	t.Helper()
	for what, ask := range ownAnswers(n.master) {
		if err := ask(by); !errors.Is(err, want) {
			t.Errorf("%s, %s answers %s with %v, want %v", when, n.id, what, err, want)
		}
	}
}

// accessible waits until all of a cell know the level of access, and its first
// master has enabled it.
func accessible(t *testing.T, c *fakeCell) *node {
	t.Helper()
	c.set(func(f *fakeConf) {
		f.level = map[string]uint64{}
		for _, n := range c.nodes {
			f.level[founder(n.id)] = state.Level
		}
	})
	n := c.office("r1")
	if _, err := n.master.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{}); err != nil {
		t.Fatal(err)
	}
	pass(time.Second) // all replicas have that
	return n
}

// TestReplicaThatStarts answers nothing from its own state, makes no backup and
// is not ready, until it has caught up. Before that it does not refuse
// credentials, either: it may not know them yet.
func TestReplicaThatStarts(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		none := c.node("r2")
		wantOwnAnswers(t, "before there was a master", none, Caller{Ask: Ask{Right: Operate}}, lockapi.CodeNoMaster)
		accessible(t, c)
		n, watch := c.node("r3"), watching(t, c.node("r3").master, EventFilter{}.For(root(AnyCaller)))
		defer watch.Close()
		secret := Caller{Secret: new([32]byte), Ask: Ask{Right: Observe}}
		for _, behind := range []bool{true, false} {
			n.Lag(behind)
			want, judged := error(nil), error(lockapi.CodeUnauthenticated)
			if behind {
				want, judged = lockapi.CodeNoMaster, lockapi.CodeNoMaster
			}
			wantOwnAnswers(t, "starting", n, root(Operate), want)
			if err := n.master.Ready(); !errors.Is(err, want) {
				t.Errorf("behind %v, it is ready: %v", behind, err)
			}
			if err := third(watch.Read(0, 1, 1<<20)); !errors.Is(err, want) {
				t.Errorf("behind %v, a watch that was open reads %v", behind, err)
			}
			if _, err := n.master.OwnBackup(); !errors.Is(err, want) {
				t.Errorf("behind %v, it backs up %v", behind, err)
			}
			code(t, n.master.Authorize(&secret), judged.(lockapi.Code))
			code(t, n.master.Authorize(&Caller{Ask: Ask{Right: Observe}}), lockapi.CodeUnauthenticated)
		}
	})
}

// TestReplicaThatIsCutOff answers from its own state for stale-for, and no
// longer, while access is on. A watch wakes its reader then, and a machine's
// sleep counts.
func TestReplicaThatIsCutOff(t *testing.T) {
	const bound = 30 * time.Second
	inCell(t, 3, Options{Drift: drift, StaleFor: bound}, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		pass(time.Second)
		c.cutOff("r3", true)
		pass(2 * bound)
		wantOwnAnswers(t, "cut off, with access off", c.node("r3"), Caller{Ask: Ask{Right: Operate}}, nil)
	})
	inCell(t, 3, Options{Drift: drift, StaleFor: bound}, func(t *testing.T, c *fakeCell) {
		accessible(t, c)
		n := c.node("r3")
		watch := watching(t, n.master, EventFilter{}.For(root(AnyCaller)))
		defer watch.Close()
		if err := third(watch.Read(n.State().Revision, 1, 1<<20)); err != nil {
			t.Fatal(err)
		}
		pass(2 * bound)
		wantOwnAnswers(t, "beside a master", n, root(Operate), nil)
		for len(watch.Ready()) > 0 { // from checks in between
			<-watch.Ready()
			must(t, third(watch.Read(n.State().Revision, 1, 1<<20)))
		}

		c.cutOff("r3", true)
		asOf, _ := n.AsOf()
		left := bound - (n.clock() - asOf)
		pass(left - time.Millisecond)
		wantOwnAnswers(t, "just before stale-for is over", n, root(Operate), nil)
		must(t, third(watch.Read(n.State().Revision, 1, 1<<20)))
		pass(2 * time.Millisecond)
		synctest.Wait()
		wantOwnAnswers(t, "when stale-for is over", n, root(Operate), lockapi.CodeNoMaster)
		if len(watch.Ready()) == 0 {
			t.Error("a watch does not wake its reader when stale-for is over")
		}
		code(t, third(watch.Read(n.State().Revision, 1, 1<<20)), lockapi.CodeNoMaster)
		code(t, n.master.Authorize(&Caller{Secret: new([32]byte), Ask: Ask{Right: Observe}}), lockapi.CodeNoMaster)
		if _, err := n.master.OwnBackup(); err != nil {
			t.Errorf("it backs nothing up: %v", err)
		}

		c.cutOff("r3", false)
		pass(time.Second)
		wantOwnAnswers(t, "when it hears of a master again", n, root(Operate), nil)
		n.Sleep(time.Hour)
		wantOwnAnswers(t, "waking up", n, root(Operate), lockapi.CodeNoMaster)
	})
}

// TestMasterThatIsCutOff: a master with its lease answers everything. Without
// the lease it is like any other replica, even while it believes to be in
// office.
func TestMasterThatIsCutOff(t *testing.T) {
	const bound = 30 * time.Second
	inCell(t, 3, Options{Drift: drift, StaleFor: bound}, func(t *testing.T, c *fakeCell) {
		n := accessible(t, c)
		n.SetAsOf(time.Nanosecond)
		wantOwnAnswers(t, "with its lease", n, root(Operate), nil)
		pass(time.Second)
		watch := watching(t, n.master, EventFilter{}.For(root(AnyCaller)))
		defer watch.Close()
		must(t, third(watch.Read(n.State().Revision, 1, 1<<20)))
		c.cutOff("r1", true)
		pass(2 * leaseTerm)
		if openOffice(t, n).leaseValid() {
			t.Fatal("its lease runs")
		}
		wantOwnAnswers(t, "without its lease", n, root(Operate), nil)
		if b, err := n.master.OwnBackup(); err != nil || !b.Header.Stale {
			t.Errorf("without its lease its backup passes for the cell's: %+v, %v", b.Header, err)
		}
		pass(bound)
		wantOwnAnswers(t, "when stale-for is over", n, root(Operate), lockapi.CodeNoMaster)
		soon(t, watch.Ready())
		code(t, third(watch.Read(n.State().Revision, 1, 1<<20)), lockapi.CodeNoMaster)
	})
}
