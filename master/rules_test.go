package master

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
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
