package master

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// ruled is a cell with quotas and access, in which user:a administers /p.
func ruled(t *testing.T, q Quotas, f func(t *testing.T, m *Master, n *node)) {
	t.Helper()
	withQuotas(t, q, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		know(c)
		must(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		must(t, putRule(t, m, lockapi.PrincipalRoot, "/p", lockapi.AccessLists{Admin: []string{"user:a"}, Write: []string{"user:a"}}))
		f(t, m, n)
	})
}

func putRule(t *testing.T, m *Master, who, path string, lists lockapi.AccessLists) error {
	t.Helper()
	_, err := m.PutRule(t.Context(), new(by(who, AdminAt, path)), &lockapi.PutRule{Path: path, AccessLists: lists})
	return err
}

// TestRulesCountInBytes: an administrator is refused when max-bytes is used up,
// and an operator is not. A rule that gets shorter is never refused, nor is a
// deletion.
func TestRulesCountInBytes(t *testing.T) {
	const most = 400_000
	ruled(t, Quotas{Bytes: most}, func(t *testing.T, m *Master, n *node) {
		long := lockapi.AccessLists{}
		for i := range 40 {
			long.Read = append(long.Read, fmt.Sprintf("user:%s%d", strings.Repeat("x", 200), i))
		}
		put := 0
		for ; put < 1000; put++ {
			if err := putRule(t, m, "user:a", fmt.Sprintf("/p/%d", put), long); err != nil {
				refusedBy(t, err, "max-bytes")
				break
			}
		}
		if used := n.State().Policy().Size(); used > most || used < most*9/10 {
			t.Errorf("%d rules take %d bytes", put, used)
		}
		must(t, putRule(t, m, "user:a", "/p/0", lockapi.AccessLists{Read: long.Read[1:]}))
		refusedBy(t, putRule(t, m, "user:a", "/p/x", long), "max-bytes")
		must(t, putRule(t, m, lockapi.PrincipalRoot, "/root", long))
		done, err := m.DeleteRulesBelow(t.Context(), new(by("user:a", AdminBelow, "/p")), &lockapi.DeleteRulesBelow{Prefix: "/p"})
		if err != nil || !done.Deleted || n.State().Policy().RuleCount() != 2 {
			t.Errorf("%+v, %v, %d rules", done, err, n.State().Policy().RuleCount())
		}
		must(t, second(m.WriteFile(t.Context(), new(root(WriteAt)), &lockapi.WriteFile{Path: "/p/f", Content: make([]byte, most/2)})))
	})
}

// TestRulesBelowAreDeleted: by an administrator of all of them, in one step.
func TestRulesBelowAreDeleted(t *testing.T) {
	ruled(t, Quotas{}, func(t *testing.T, m *Master, n *node) {
		for _, path := range []string{"/p/1", "/p/1/2", "/p/3", "/pp", "/p!"} {
			must(t, putRule(t, m, lockapi.PrincipalRoot, path, lockapi.AccessLists{Read: []string{"user:b"}}))
		}
		below := func(who, path string) error {
			_, err := m.DeleteRulesBelow(t.Context(), new(by(who, AdminBelow, path)), &lockapi.DeleteRulesBelow{Prefix: path})
			return err
		}
		must(t, putRule(t, m, lockapi.PrincipalRoot, "/p/3", lockapi.AccessLists{Admin: []string{"user:b"}}))
		code(t, below("user:a", "/p"), lockapi.CodePermissionDenied)
		code(t, below("user:a", "/"), lockapi.CodePermissionDenied)
		must(t, below("user:a", "/p/1"))
		if _, there := n.State().Policy().Rule("/p/1/2"); there {
			t.Error("/p/1/2 is left")
		}
		must(t, below(lockapi.PrincipalRoot, "/p"))
		var left []string
		for r := range n.State().Policy().Rules("", "") {
			left = append(left, r.Path)
		}
		if fmt.Sprint(left) != "[/p /p! /pp]" {
			t.Error(left)
		}
		must(t, below(lockapi.PrincipalRoot, "/"))
		if n.State().Policy().RuleCount() != 0 {
			t.Errorf("%d are left", n.State().Policy().RuleCount())
		}
	})
}

// TestRuleConcernsItsSubtree: calls that wait elsewhere are not even woken.
func TestRuleConcernsItsSubtree(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		one, other := sessionOfCaller(t, m, "user:a"), sessionOfCaller(t, m, "user:a")
		o := openOffice(t, n)
		calls := map[string]*waiter{}
		for _, path := range []string{"/p", "/p/q", "/p/q/r", "/p/q!", "/p/qq"} {
			for _, s := range []string{one, other} {
				must(t, second(m.AcquireLock(t.Context(), new(using(by("user:a", LockAt, path), s)), &lockapi.AcquireLock{Path: path, LockRequest: want(s, queueing)})))
			}
			o.mu.Lock()
			_, calls[path] = o.waiters.enter(state.HandleKey{Session: other, Path: path})
			o.mu.Unlock()
		}
		woken := func() map[string]bool {
			pass(time.Second)
			found := map[string]bool{}
			for path, w := range calls {
				select {
				case <-w.wakeup:
					found[path] = true
				default:
				}
			}
			return found
		}
		put := func(path string, lists lockapi.AccessLists) {
			t.Helper()
			must(t, second(m.PutRule(t.Context(), new(root(AdminAt)), &lockapi.PutRule{Path: path, AccessLists: lists})))
		}
		for path, want := range map[string]string{"/p/q": "map[/p/q:true /p/q/r:true]", "/p/q!": "map[/p/q!:true]", "/z": "map[]", "/p/q/r/s": "map[]"} {
			put(path, lockapi.AccessLists{Read: []string{"user:b"}})
			if got := fmt.Sprint(woken()); got != want {
				t.Errorf("a rule at %s wakes %s, want %s", path, got, want)
			}
		}
		if n.State().WaitCount() != len(calls) {
			t.Errorf("%d wait", n.State().WaitCount())
		}
		put("/p/q", lockapi.AccessLists{Lock: []string{"user:b"}})
		woken()
		for path := range calls {
			_, wait := n.State().HoldOrWait(other, path, "")
			if ended := path == "/p/q" || path == "/p/q/r"; (wait == nil) != ended {
				t.Errorf("%s: %+v", path, wait)
			}
		}
	})
}

// TestChangesAreJudgedTogether: changes that arrive during a pass share the
// next pass, in which each wait is checked once.
func TestChangesAreJudgedTogether(t *testing.T) {
	securely(t, func(t *testing.T, _ *Master, n *node, _ *fakeCell) {
		o := openOffice(t, n)
		pass(time.Second)
		o.mu.Lock()
		for _, path := range []string{"/a/b/c", "/a", "/a/b", "/a!", "/b/c"} {
			o.recheckBelow(path)
		}
		alone := map[string]bool{}
		for path := range o.rechecking.below {
			if !isBelow(o.rechecking.below, path) {
				alone[path] = true
			}
		}
		if !maps.Equal(alone, map[string]bool{"/a": true, "/a!": true, "/b/c": true}) {
			t.Errorf("%v are checked", alone)
		}
		o.mu.Unlock()
		pass(time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		if r := &o.rechecking; r.running || len(r.below) > 0 {
			t.Errorf("%+v is left", r)
		}
	})
}

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
