package master

import (
	"fmt"
	"testing"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
)

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

// TestSuccessor: the fastest member that is well, and only if the others are a
// majority without the master.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	disk := &unfit{reason: slowDisk, sync: 400 * ms}
	snapshot := &unfit{reason: unsentSnapshot}
	voter := func(i int, sync time.Duration) member {
		return member{MemberStatus: membership.MemberStatus{Member: membership.Member{ID: fmt.Sprintf("r%d", i)}, Voter: true},
			card: admission.Info{Applied: 1000, HasLeader: true, Sync: uint64(sync.Microseconds())}, there: true, well: true}
	}
	for _, c := range []struct {
		name   string
		why    *unfit
		change func(r2, r3 *member)
		want   string
	}{
		{"both are fast", disk, func(_, _ *member) {}, "r3"},
		{"its lease", &unfit{reason: lostLease}, func(_, _ *member) {}, "r3"},
		{"one has a write under way", disk, func(_, r3 *member) { r3.card.Writing = 20_000 }, "r2"},
		{"one is slow as well", disk, func(_, r3 *member) { r3.card.Sync = 101_000 }, ""},
		{"one hangs as well", disk, func(r2, _ *member) { r2.card.Writing = 300_000 }, ""},
		{"one is away", disk, func(r2, _ *member) { r2.there, r2.well = false, false }, ""},
		{"one hears no master", disk, func(r2, _ *member) { r2.well = false }, ""},
		{"one is behind", disk, func(_, r3 *member) { r3.card.Applied = 100 }, ""},
		{"one does not tell", disk, func(_, r3 *member) { r3.card.Sync = 0 }, ""},
		{"one has no vote", disk, func(_, r3 *member) { r3.Voter = false }, ""},
		{"nothing is gained", &unfit{reason: slowDisk, sync: 4 * ms}, func(_, _ *member) {}, ""},
		{"a snapshot", snapshot, func(_, _ *member) {}, "r3"},
		{"a snapshot that the fastest cannot send", snapshot, func(_, r3 *member) { r3.card.Unsent = 1 }, "r2"},
		{"a snapshot, and one is away", snapshot, func(r2, _ *member) { r2.well = false }, "r3"},
		{"a snapshot that is for the fastest", snapshot, func(_, r3 *member) { r3.card.Applied = 1 }, "r2"},
		{"a snapshot that none can send", snapshot, func(r2, r3 *member) { r2.card.Unsent, r3.card.Unsent = 1, 1 }, ""},
	} {
		r := pollResult{applied: 1200, members: []member{voter(1, 0), voter(2, 3*ms), voter(3, 2*ms)}}
		c.change(&r.members[1], &r.members[2])
		if got := r.successor("r1", 800*ms, c.why); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
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
		go func() { _, _ = o.batcher.Do(open("s")) }()
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
