package master

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

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
			_, calls[path] = o.waiters.enter(claimKey{session: other, path: path})
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
			_, wait := n.State().Claim(other, path, "")
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
