package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// TestSilentMasterIsSuspectedInTime: the library alone takes nearly two
// heartbeat time-outs, and more when two replicas campaign at once.
func TestSilentMasterIsSuspectedInTime(t *testing.T) {
	const heartbeat = time.Second
	for _, n := range []int{3, 4, 5} {
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				cell := steered(t, n)
				defer cell.close()
				leader := leads(t, cell.all)
				time.Sleep(5 * heartbeat) // virtual
				for _, w := range cell.wires {
					w.voteDelay.Store(int64(heartbeat * 3 / 100))
				}
				cell.cut(leader)
				cut := time.Now()
				leads(t, without(cell.all, leader))
				if took := time.Since(cut); took < heartbeat*3/4 || took > heartbeat*4/3 {
					t.Errorf("%d replicas: the next leader is there after %v, want a heartbeat time-out (%v) and up to a third", n, took, heartbeat)
				}
			})
		}
	}
}

// TestLongerLogCampaigns: the replica that suspects the master out of turn lacks
// its last entry. The one that refuses it a vote campaigns at once.
func TestLongerLogCampaigns(t *testing.T) {
	const heartbeat = time.Second
	for _, n := range []int{3, 4, 5} {
		for behind := range n - 1 {
			for range 5 {
				synctest.Test(t, func(t *testing.T) {
					cell := steered(t, n)
					defer cell.close()
					leader, epoch := lead(t, cell.all...)
					others := without(cell.all, leader)
					lacks := others[behind]
					time.Sleep(5 * heartbeat) // virtual
					for _, w := range cell.wires {
						w.voteDelay.Store(int64(heartbeat * 3 / 100))
					}
					cell.cut(lacks)
					leader.Submit(state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{open("last")}})
					synctest.Wait()
					cell.cut(leader)
					cell.link(others...)
					cut := time.Now()
					next := leads(t, others)
					if took := time.Since(cut); next == lacks || took > heartbeat*3/2 {
						t.Errorf("%d replicas: %s lacks an entry, and %s leads after %v, want another after up to %v", n, lacks.ID(), next.ID(), took, heartbeat*3/2)
					}
				})
			}
		}
	}
}

// TestFollowerForGood: it wins the election that another
// replica makes it win, and has another leader elected.
func TestFollowerForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cell := steered(t, 3)
		defer cell.close()
		leader := leads(t, cell.all)
		before, _ := leader.Leading()
		leaving := without(cell.all, leader)[0]
		leaving.Follow()
		if err := leader.Transfer(t.Context(), leaving.ID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // virtual
		if term, _ := leads(t, without(cell.all, leaving)).Leading(); term < before+2 {
			t.Errorf("the leader's term is %d, and was %d before the leaving replica won an election", term, before)
		}
	})
}

// TestFollowersForGoodElectSeldom: two replicas that have only each other to give
// leadership to do not hold one election after another.
func TestFollowersForGoodElectSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cell := steered(t, 3)
		defer cell.close()
		leader := leads(t, cell.all)
		before, _ := leader.Leading()
		others := without(cell.all, leader)
		cell.cut(others[0])
		leader.Follow()
		others[1].Follow()
		time.Sleep(time.Minute) // virtual
		if term, _ := leads(t, cell.all).Leading(); term > before+100 {
			t.Errorf("%d elections in a minute", term-before)
		}
		cell.link(cell.all...)
		time.Sleep(time.Minute) // virtual
		if next := leads(t, cell.all); next != others[0] {
			t.Errorf("%s leads, and not the replica that came back", next.ID())
		}
	})
}

// TestTransferNeedsAnswers: leadership goes to a replica that answers, and not to one
// that is down and has as many entries.
func TestTransferNeedsAnswers(t *testing.T) {
	for i := range 2 {
		synctest.Test(t, func(t *testing.T) {
			cell := steered(t, 3)
			defer cell.close()
			leader := leads(t, cell.all)
			time.Sleep(time.Second) // virtual
			others := without(cell.all, leader)
			cell.cut(others[i])
			time.Sleep(200 * time.Millisecond) // virtual
			if err := leader.Transfer(t.Context(), ""); err != nil {
				t.Error(err)
			}
			if next := leads(t, others); next != others[1-i] {
				t.Errorf("%s leads", next.ID())
			}
		})
	}
}

// leads waits, in virtual time, for one of the replicas to lead.
func leads(t *testing.T, all []*Replica) *Replica {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, r := range all {
			if _, ok := r.Leading(); ok {
				return r
			}
		}
	}
	t.Fatal("no replica leads")
	return nil
}
