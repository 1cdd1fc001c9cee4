package master

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// TestLargeResultsAreRefused: the refusal names the bound and the operation,
// changes nothing, and is repeated under a key.
func TestLargeResultsAreRefused(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s := sessionOfCaller(t, m, lockapi.PrincipalRoot)
		write := func(content string) {
			t.Helper()
			must(t, second(m.WriteFile(t.Context(), new(root(WriteAt)), &lockapi.WriteFile{Path: "/p/f", Content: []byte(content)})))
		}
		write(strings.Repeat("x", lockapi.MaxFileBytes))
		get := lockapi.Operation{Get: &lockapi.FileOperation{Path: "/p/f"}}
		put := lockapi.Operation{Put: &lockapi.WriteOperation{Path: "/p/g", Content: new("x")}}
		ask := func(key string, ops ...lockapi.Operation) (TransactionDone, error) {
			return m.Transact(t.Context(), new(using(root(AnyCaller), s)), &lockapi.Transact{Key: key, Transaction: lockapi.Transaction{Session: s, Then: ops}})
		}
		if done, err := ask("", slices.Repeat([]lockapi.Operation{get}, 4)...); err != nil || len(done.Results) != 4 {
			t.Fatalf("%d results, %v", len(done.Results), err)
		}
		many := append([]lockapi.Operation{put}, slices.Repeat([]lockapi.Operation{get}, 127)...)
		for i, key := range []string{"", "k", "k"} {
			_, err := ask(key, many...)
			e := code(t, err, lockapi.CodeTooLarge)
			if e.Operation == nil || *e.Operation != 5 || !strings.Contains(e.Detail, "operation 5") || !strings.Contains(e.Detail, "1048576 bytes") || e.Replayed != (i == 2) {
				t.Errorf("%+v", e)
			}
			if _, there := n.State().File("/p/g"); there {
				t.Error("it has changed a file")
			}
			if i == 1 {
				write("x")
			}
		}
	})
}

// TestListsEndAtABound, including lists that were whole, or short, before.
func TestListsEndAtABound(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		var members []string
		for i := range 1000 {
			members = append(members, fmt.Sprintf("user:%s%04d", strings.Repeat("\"", 200), i))
		}
		for i := range 5 {
			must(t, second(m.PutGroup(t.Context(), new(root(Operate)), &lockapi.PutGroup{Name: fmt.Sprint(i), GroupMembers: lockapi.GroupMembers{Members: members}})))
		}
		var names []string
		for page, after := 0, ""; ; page++ {
			list, err := m.ListGroups(t.Context(), &Read{Caller: new(root(Operate))}, &lockapi.ListGroups{After: after})
			must(t, err)
			if n := jsonSize(t, list); n > 2*lockapi.PageBytes || page > 5 {
				t.Fatalf("page %d has %d bytes", page, n)
			}
			for _, g := range list.Groups {
				names = append(names, g.Name)
			}
			if after = list.Next; after == "" {
				break
			}
		}
		if fmt.Sprint(names) != "[0 1 2 3 4]" {
			t.Error(names)
		}
	})
}
