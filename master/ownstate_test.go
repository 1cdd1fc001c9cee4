package master

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// watching makes a watch, which must succeed.
func watching(t *testing.T, m *Master, f EventFilter) EventWatch {
	t.Helper()
	w, err := m.WatchEvents(f)
	must(t, err)
	return w
}

// ownAnswers are the answers that a replica gives from its own state, as master
// or not: to each call with Row.Reads or Row.Own, and of a watch.
func ownAnswers(m *Master) map[string]func(Caller) error {
	all := map[string]func(Caller) error{"events": func(by Caller) error {
		w, err := m.WatchEvents(EventFilter{}.For(by))
		if err != nil {
			return err
		}
		defer w.Close()
		return third(w.Read(0, 1, 1<<20))
	}}
	for of, row := range rows {
		if !row.Reads && !row.Own || of == reflect.TypeFor[*lockapi.GetBackup]() { // see OwnBackup
			continue
		}
		c := reflect.New(of.Elem())
		for name, value := range map[string]any{"Path": "/p/a", "Prefix": "/", "Limit": 1} {
			if f := c.Elem().FieldByName(name); f.IsValid() {
				f.Set(reflect.ValueOf(value))
			}
		}
		all[of.String()] = func(by Caller) error {
			err := third(m.Do(context.Background(), new(by), true, c.Interface().(lockapi.Call)))
			if errors.Is(err, lockapi.CodeNotFound) || errors.Is(err, lockapi.CodeSessionNotFound) {
				return nil // an answer, too
			}
			return err
		}
	}
	return all
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
	know(c)
	n := c.office("r1")
	must(t, second(n.master.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
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
		secret := Caller{Secret: new([32]byte), Ask: Ask{Right: Observe}}
		code(t, none.master.Authorize(&secret), lockapi.CodeNoMaster)
		accessible(t, c)
		n, watch := c.node("r3"), watching(t, c.node("r3").master, EventFilter{}.For(root(AnyCaller)))
		defer watch.Close()
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
		must(t, third(watch.Read(n.State().Revision, 1, 1<<20)))
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
