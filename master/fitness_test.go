package master

import (
	"testing"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
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
