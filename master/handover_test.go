package master

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/internal/progress"
	_ "github.com/stoutlock/stout/internal/racebubble"
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

// TestHandOverThatWaits for its successor to be well needs the right until then.
func TestHandOverThatWaits(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		know(c)
		m := c.office("r1").master
		must(t, second(m.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
		operators := func(all ...string) {
			t.Helper()
			must(t, second(m.PutCellAccess(t.Context(), new(root(Operate)), &lockapi.PutCellAccess{CellAccess: lockapi.CellAccess{Operate: all}})))
		}
		operators("user:a")
		c.set(func(f *fakeConf) { f.deaf = map[string]bool{"r3": true} })
		moved := make(chan error, 1)
		go func() {
			to := &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: "r3"}}
			moved <- second(m.TransferMastership(t.Context(), new(by("user:a", Operate)), to))
		}()
		pass(askAgain)
		operators()
		c.set(func(f *fakeConf) { f.deaf = nil })
		code(t, <-moved, lockapi.CodePermissionDenied)
		if m.inOffice() == nil {
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

const ms = time.Millisecond

// TestUnfit: a disk that is slow for the term, a lease that keeps lapsing, and
// a snapshot that cannot be sent.
func TestUnfit(t *testing.T) {
	t.Parallel()
	const term = 800 * ms
	type look struct {
		at             time.Duration
		lapsed, unsent uint64
	}
	for _, c := range []struct {
		name          string
		looks         []look
		sync, writing time.Duration
		want          string
	}{
		{"all is well", []look{{0, 0, 0}}, ms, ms, ""},
		{"a disk at the bound", []look{{0, 0, 0}}, 100 * ms, 200 * ms, ""},
		{"a slow disk", []look{{0, 0, 0}}, 101 * ms, 0, slowDisk},
		{"a write that does not end", []look{{0, 0, 0}}, ms, 201 * ms, slowDisk},
		{"two lapses", []look{{0, 0, 0}, {time.Second, 2, 0}}, ms, 0, ""},
		{"three", []look{{0, 0, 0}, {time.Second, 2, 0}, {3 * time.Second, 3, 0}}, ms, 0, lostLease},
		{"three at once", []look{{0, 0, 0}, {time.Second, 3, 0}}, ms, 0, lostLease},
		{"three, one of them long ago", []look{{0, 1, 0}, {31 * time.Second, 2, 0}, {33 * time.Second, 3, 0}}, ms, 0, ""},
		{"three, all of them over", []look{{0, 3, 0}, {time.Second, 3, 0}}, ms, 0, ""},
		{"snapshots that fail at once", []look{{0, 0, 9}, {time.Second, 0, 99}}, ms, 0, ""},
		{"snapshots that fail for long", []look{{0, 0, 1}, {time.Second, 0, 2}, {4 * time.Second, 0, 3}}, ms, 0, unsentSnapshot},
		{"and did before this office", []look{{0, 0, 90}, {time.Hour, 0, 90}}, ms, 0, ""},
		{"one that was sent between", []look{{0, 0, 5}, {4 * time.Second, 0, 1}, {5 * time.Second, 0, 3}}, ms, 0, ""},
		{"a member that needed one, and went", []look{{0, 0, 1}, {4 * time.Second, 0, 3}, {11 * time.Second, 0, 3}}, ms, 0, ""},
		{"one that comes back", []look{{0, 0, 1}, {4 * time.Second, 0, 3}, {time.Hour, 0, 4}}, ms, 0, ""},
	} {
		f := fitness{term: term}
		for _, l := range c.looks {
			f.note(l.at, l.lapsed, l.unsent)
		}
		got := f.unfit(c.looks[len(c.looks)-1].at, c.sync, c.writing)
		switch {
		case got == nil && c.want != "", got != nil && got.reason != c.want:
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		case got != nil && (got.found == "" || got.cure == ""):
			t.Errorf("%s: no words for %+v", c.name, got)
		}
	}
}

// TestRest: each pause is twice as long as the previous one; after a good time
// they begin anew.
func TestRest(t *testing.T) {
	t.Parallel()
	var r rest
	now := time.Hour
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 320, 600, 600} {
		if r.begin(now); r.over(now+want*time.Second-1) || !r.over(now+want*time.Second) {
			t.Errorf("pause %d is not %d s", i, want)
		}
		now += want * time.Second
	}
	now += time.Hour
	if r.begin(now); !r.over(now + firstRest) {
		t.Error("the pause is as long as ever after an hour")
	}
}

// unfitCell is a cell of three with fast disks and r1 in office.
func unfitCell(t *testing.T, f func(t *testing.T, c *fakeCell, m *Master)) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		c.set(func(f *fakeConf) {
			f.sync = map[string]uint64{"r1": 1000, "r2": 1000, "r3": 900}
			f.writing, f.unsent = map[string]uint64{}, map[string]uint64{}
		})
		pass(time.Minute)
		if m.inOffice() == nil {
			t.Fatal("a fit master has given up its office")
		}
		f(t, c, m)
	})
}

// TestUnfitMasterHandsOver to the best of the others, within a term of the
// lease, and counts it. The successor need not wait for a lease.
func TestUnfitMasterHandsOver(t *testing.T) {
	for reason, fault := range map[string]func(c *fakeCell, m *Master){
		slowDisk:  func(c *fakeCell, _ *Master) { c.set(func(f *fakeConf) { f.sync["r1"] = 300_000 }) },
		lostLease: func(_ *fakeCell, m *Master) { m.inOffice().lapses.Add(mostLapses) },
		unsentSnapshot: func(c *fakeCell, _ *Master) {
			for range 9 {
				c.set(func(f *fakeConf) { f.unsent["r1"]++ })
				pass(leaseTerm)
			}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			unfitCell(t, func(t *testing.T, c *fakeCell, m *Master) {
				fault(c, m)
				c.inOffice(c.node("r3"), leaseTerm)
				if n := m.vitals.resigned[reason].Load(); n != 1 {
					t.Errorf("counted %d times", n)
				}
			})
		})
	}
}

// TestMasterWhoseDiskHangsHandsOver: the calls under way and the closing entry
// get no outcome while the disk hangs. The office still ends within a term of
// the lease.
func TestMasterWhoseDiskHangsHandsOver(t *testing.T) {
	unfitCell(t, func(t *testing.T, c *fakeCell, m *Master) {
		o := m.inOffice()
		c.setDelay(time.Minute)
		go func() { _, _ = o.batcher.Begin(open("s"), nil)() }()
		c.set(func(f *fakeConf) { f.writing["r1"] = 600_000 })
		began := time.Now()
		<-o.done
		if took := time.Since(began); took > leaseTerm/2 {
			t.Errorf("it took %v to give up the office", took)
		}
		if n := m.vitals.resigned[slowDisk].Load(); n != 1 {
			t.Errorf("counted %d times", n)
		}
		pass(3 * time.Minute) // the transfer ends
	})
}

// TestNoHandOverWithoutGain: if no other member is better, or if it happened
// recently.
func TestNoHandOverWithoutGain(t *testing.T) {
	unfitCell(t, func(t *testing.T, c *fakeCell, m *Master) {
		c.set(func(f *fakeConf) { f.sync["r1"], f.sync["r2"] = 300_000, 290_000 })
		pass(time.Minute)
		if m.inOffice() == nil {
			t.Error("it has handed over, though the cell waits for two slow disks")
		}
		c.set(func(f *fakeConf) { f.sync["r2"] = 1000 })
		next := c.node("r3")
		c.inOffice(next, leaseTerm)
		c.office("r1") // it is still slow
		pass(firstRest - 2*leaseTerm)
		if n := m.vitals.resigned[slowDisk].Load(); m.inOffice() == nil || n != 1 {
			t.Errorf("it has handed over again at once, %d times", n)
		}
		c.inOffice(next, 3*leaseTerm)
	})
}

// TestMasterThatHangsLosesItsOffice: the log accepts no entry, and the office
// is over within two terms of the lease. The probes report it until the stage
// continues.
func TestMasterThatHangsLosesItsOffice(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		o := openOffice(t, n)
		synctest.Wait()
		until := make(chan struct{})
		n.until = until
		go func() { _, _ = o.batcher.Begin(open("s"), nil)() }()
		began := time.Now()
		<-o.done
		if took := time.Since(began); took > 2*leaseTerm {
			t.Errorf("in office for %v", took)
		}
		if err := m.Hangs(); err == nil || !strings.Contains(err.Error(), "propose") || m.vitals.resigned["propose"].Load() != 1 {
			t.Errorf("it says %v, and has resigned %v", err, m.vitals.resigned)
		}
		time.Sleep(leaseTerm)
		if n.master.inOffice() != nil || m.Hangs() == nil {
			t.Errorf("another office while it hangs, and says %v", m.Hangs())
		}
		close(until)
		time.Sleep(leaseTerm)
		if openOffice(t, n) == o || m.Hangs() != nil {
			t.Errorf("the office continues, and Hangs is %v", m.Hangs())
		}
	})
}

// TestHeldMutexEndsTheOffice: the batches that renew the lease need none of
// these mutexes. Otherwise a master would stay in office without serving.
func TestHeldMutexEndsTheOffice(t *testing.T) {
	for name, mutex := range map[string]func(m *Master, o *office) sync.Locker{
		"master": func(m *Master, _ *office) sync.Locker { return &m.mu },
		"office": func(_ *Master, o *office) sync.Locker { return &o.mu },
		"quotas": func(_ *Master, o *office) sync.Locker { return o.quotas.Mutex() },
		"turns":  func(_ *Master, o *office) sync.Locker { return &o.turns.mu },
	} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Int64 // a bubble's time stops while a goroutine waits for a mutex
			watch := progress.New(func() time.Duration { return time.Duration(now.Load()) })
			inCell(t, 1, Options{Drift: 0.01, Progress: watch}, func(t *testing.T, c *fakeCell) {
				n := c.office("r1")
				m, o := n.master, openOffice(t, n)
				held := mutex(m, o)
				held.Lock()
				defer held.Unlock()
				go m.tryAll(watch.Step("mutex"))
				for now.Add(int64(leaseTerm)); watch.Hangs(leaseTerm) == nil; now.Add(int64(leaseTerm)) {
					runtime.Gosched()
				}
				m.lookForHangs(m.opts.LeaseTerm)
				<-o.done
				if err := m.Hangs(); err == nil || o.leaseValid() {
					t.Errorf("it says %v, and has its lease: %v", err, o.leaseValid())
				}
			})
		})
	}
}
