package master

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestNoHandOverToANonvoter: a member without a vote is no successor, by name
// or as any. Neither is a nonvoting directory that answers in a voter's place.
// The office is not given up for it.
func TestNoHandOverToANonvoter(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		transfer := func(to string, want lockapi.Code, says string) {
			t.Helper()
			if e := code(t, second(transfer(t, m, to)), want); !strings.Contains(e.Detail, says) {
				t.Errorf("%q does not say %q", e.Detail, says)
			}
		}
		must(t, second(m.AddMember(t.Context(), &Caller{}, addition(lockapi.SuffrageNonvoter))))
		pass(time.Second)
		transfer("r4", lockapi.CodeInvalidArgument, "does not vote")
		c.set(func(f *fakeConf) { f.behind[newDirectory] = 1 << 20 })
		must(t, replaceMember(t, m, "r3", newDirectory))
		c.set(func(f *fakeConf) { f.at["r3"] = newDirectory })
		transfer("r3", lockapi.CodeConflict, "which is not the member's")
		c.set(func(f *fakeConf) {
			f.members = slices.Clone(f.members) // readers keep the old slice
			for i := range f.members {
				f.members[i].Voter = f.members[i].ID == "r1"
			}
		})
		transfer("", lockapi.CodeConflict, "only voter")
		if o := m.inOffice(); o == nil || o.epoch != 1 {
			t.Error("a refused transfer has cost the master its office")
		}
	})
}

// TestHandOverWithoutALease: a leader without a lease may be replaced. It takes
// an answer from a majority, slow or fast, and the caller's right at the time
// of the call.
func TestHandOverWithoutALease(t *testing.T) {
	transfer := func(t *testing.T, n *node, who Caller, to string) (lockapi.Transferred, time.Duration, error) {
		began := time.Now()
		done, err := n.master.TransferMastership(t.Context(), new(who), &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: to}})
		return done, time.Since(began), err
	}
	closed := func(t *testing.T, c *fakeCell) *node {
		know(c)
		n := c.office("r1")
		must(t, second(n.master.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		return n
	}
	lapsed := func(t *testing.T, n *node, o *office) {
		t.Helper()
		if o.leaseValid() {
			t.Fatalf("%s holds a lease", n.id)
		}
	}
	t.Run("entries take longer than it", func(t *testing.T) {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			n := closed(t, c)
			c.setDelay(leaseTerm + leaseTerm/20)
			pass(4 * leaseTerm)
			lapsed(t, n, openOffice(t, n))
			_, _, err := transfer(t, n, by("user:u", Operate), "r3")
			code(t, err, lockapi.CodePermissionDenied)
			if n.master.inOffice() == nil {
				t.Fatal("a refused transfer has cost the master its office")
			}
			done, _, err := transfer(t, n, root(Operate), "r3")
			if err != nil || done.Master != "r3" {
				t.Errorf("%+v, %v", done, err)
			}
		})
	})
	t.Run("no majority answers", func(t *testing.T) {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			n := closed(t, c)
			c.cutOff("r1", true)
			pass(2 * leaseTerm)
			o := openOffice(t, n)
			lapsed(t, n, o)
			_, took, err := transfer(t, n, root(Operate), "r2")
			code(t, err, lockapi.CodeNoMaster)
			if n.master.inOffice() != o || took > successorBound+time.Second {
				t.Errorf("cut off from the others, the office is given up, or after %v", took)
			}
		})
	})
	t.Run("its office is not open yet", func(t *testing.T) {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			closed(t, c)
			c.cutOff("r1", true)
			n := c.elect("r2")
			pass(leaseTerm / 4)
			if at := n.master.Known(); at.Self || !at.Leads {
				t.Fatalf("%+v, while it waits out the lease of r1", at)
			}
			_, _, err := transfer(t, n, by("user:u", Operate), "r3")
			code(t, err, lockapi.CodePermissionDenied)
			done, _, err := transfer(t, n, root(Operate), "r3")
			if err != nil || done.Master != "r3" {
				t.Errorf("%+v, %v", done, err)
			}
			_, _, err = transfer(t, n, root(Operate), "r1") // it is no longer the leader
			code(t, err, lockapi.CodeNoMaster)
		})
	})
}
