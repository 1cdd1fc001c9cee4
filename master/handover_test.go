package master

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestNoHandOverToANonvoter: a member without a vote is no successor, by its name or as
// any, and neither is a directory without one that answers in a voter's place. Nothing is
// given up for it.
func TestNoHandOverToANonvoter(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		transfer := func(to string, want lockapi.Code, says string) {
			t.Helper()
			_, err := m.Transfer(t.Context(), TransferRequest{To: to})
			if e := code(t, err, want); !strings.Contains(e.Detail, says) {
				t.Errorf("%q does not say %q", e.Detail, says)
			}
		}
		if err := m.Add(t.Context(), addition(lockapi.SuffrageNonvoter)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		transfer("r4", lockapi.CodeInvalidArgument, "does not vote")
		c.set(func(f *fakeConf) { f.behind[newDirectory] = 1 << 20 })
		if err := m.Replace(t.Context(), ReplaceRequest{ID: "r3", ReplaceMemberRequest: replaceBy(newDirectory)}); err != nil {
			t.Fatal(err)
		}
		c.set(func(f *fakeConf) { f.at["r3"] = newDirectory })
		transfer("r3", lockapi.CodeConflict, "which is not the member's")
		c.set(func(f *fakeConf) {
			f.members = slices.Clone(f.members) // others read them
			for i := range f.members {
				f.members[i].Voter = f.members[i].ID == "r1"
			}
		})
		transfer("", lockapi.CodeConflict, "only one that votes")
		if o := m.inOffice(); o == nil || o.epoch != 1 {
			t.Error("a refused transfer has cost the master its office")
		}
	})
}
