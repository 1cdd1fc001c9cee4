package raftstore

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	_ "github.com/stoutlock/stout/internal/bubbles"
	"github.com/stoutlock/stout/internal/histogram"
)

// asyncBench is an asyncLog over a disk whose writes take a second of virtual
// time.
type asyncBench struct {
	*asyncLog
	disk    *raft.InmemStore
	refuse  error // what the disk says to writes
	failed  error // what the replica failed with
	leading bool
}

func (b *asyncBench) StoreLogs(logs []*raft.Log) error { // as the disk
	time.Sleep(time.Second)
	if b.refuse != nil {
		return b.refuse
	}
	return b.disk.StoreLogs(logs)
}

// slowDisk is the bench as the log beneath.
type slowDisk struct {
	raft.LogStore
	b *asyncBench
}

func (d slowDisk) StoreLogs(logs []*raft.Log) error { return d.b.StoreLogs(logs) }

func async(t *testing.T, test func(t *testing.T, b *asyncBench)) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := &asyncBench{disk: raft.NewInmemStore()}
		b.asyncLog = newAsyncLog(slowDisk{b.disk, b}, func() bool { return b.leading },
			func() time.Duration { return time.Hour + time.Since(start) }, func(err error) { b.failed = err })
		test(t, b)
		b.close()
	})
}

func (b *asyncBench) store(t *testing.T, from, to uint64) error {
	t.Helper()
	var logs []*raft.Log
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Type: raft.LogCommand})
	}
	return b.asyncLog.StoreLogs(logs)
}

// took is how much virtual time do takes.
func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

func (b *asyncBench) onDisk() []uint64 {
	var all []uint64
	first, _ := b.disk.FirstIndex()
	last, _ := b.disk.LastIndex()
	for i := first; i <= last && i > 0; i++ {
		all = append(all, i)
	}
	return all
}

func TestFollowersEntriesAreOnDisk(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		if d := took(func() { must(t, b.store(t, 1, 3)) }); d != time.Second || !slices.Equal(b.onDisk(), []uint64{1, 2, 3}) {
			t.Errorf("stored after %v, on disk are %v", d, b.onDisk())
		}
		if b.durableIndex(3) != 3 || took(func() { must(t, b.waitDurable(3)) }) > 0 {
			t.Error("what is on disk is waited for")
		}
	})
}

// TestLeadersEntriesGoToDiskAside: the library goes on at once and reads them,
// and what follows from them waits.
func TestLeadersEntriesGoToDiskAside(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		must(t, b.store(t, 1, 2))
		b.leading = true
		if d := took(func() { must(t, b.store(t, 3, 4)) }); d > 0 {
			t.Errorf("a leader waits %v for its disk", d)
		}
		synctest.Wait()
		must(t, b.store(t, 5, 5)) // while the first ones are written
		must(t, b.store(t, 6, 6))
		var l raft.Log
		must(t, b.GetLog(2, &l))
		must(t, b.GetLog(4, &l))
		last, err := b.LastIndex()
		if err != nil || l.Index != 4 || last != 6 || !errors.Is(b.GetLog(7, &l), raft.ErrLogNotFound) {
			t.Errorf("the log ends at %d (%v); entry 4 is %d", last, err, l.Index)
		}
		if b.durableIndex(6) != 2 || b.durableIndex(1) != 1 {
			t.Errorf("durable up to %d, want 2, the last one on disk", b.durableIndex(6))
		}
		if d := took(func() { must(t, b.waitDurable(2)) }); d > 0 {
			t.Errorf("an entry that is on disk is waited for, %v", d)
		}
		if d := took(func() { must(t, b.waitDurable(3)) }); d != time.Second || !slices.Equal(b.onDisk(), []uint64{1, 2, 3, 4}) || b.durableIndex(6) != 4 {
			t.Errorf("entry 3 settled after %v, on disk are %v, durable up to %d", d, b.onDisk(), b.durableIndex(6))
		}
		// Both that came meanwhile are one write.
		if d := took(func() { must(t, b.waitDurable(6)) }); d != time.Second || len(b.onDisk()) != 6 || b.durableIndex(9) != 9 {
			t.Errorf("entry 6 settled after %v, on disk are %v", d, b.onDisk())
		}
	})
}

// TestLeadersFirstEntryIsOnDisk: with it those of earlier terms take effect;
// and the library goes by a configuration at once. Both come behind what is
// queued.
func TestLeadersFirstEntryIsOnDisk(t *testing.T) {
	for kind, want := range map[raft.LogType]time.Duration{
		raft.LogNoop: 2 * time.Second, raft.LogConfiguration: 2 * time.Second,
		raft.LogCommand: 0, raft.LogBarrier: 0,
	} {
		async(t, func(t *testing.T, b *asyncBench) {
			b.leading = true
			must(t, b.store(t, 1, 1))
			if d := took(func() { must(t, b.StoreLog(&raft.Log{Index: 2, Term: 1, Type: kind})) }); d != want {
				t.Errorf("%v is stored after %v, want %v", kind, d, want)
			}
			must(t, b.waitDurable(2))
			if on := b.onDisk(); !slices.Equal(on, []uint64{1, 2}) {
				t.Errorf("%v: on disk are %v", kind, on)
			}
		})
	}
}

// TestDeposedLeaderWritesInOrder: what it has as a follower comes behind what
// it left as a leader, also where that is taken out again, in a later term.
func TestDeposedLeaderWritesInOrder(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		votes := &voteStore{StableStore: raft.NewInmemStore(), waitDurable: b.waitAll, fail: func(err error) { t.Error(err) }}
		b.leading = true
		must(t, b.store(t, 1, 4))
		first, err := b.FirstIndex()
		if err != nil || first != 1 {
			t.Errorf("the first entry is %d (%v), want 1", first, err)
		}
		b.leading = false
		if d := took(func() { must(t, errors.Join(votes.SetUint64([]byte(KeyTerm), 2), b.DeleteRange(3, 4))) }); d != time.Second {
			t.Errorf("taken out after %v, want a second: when they are there", d)
		}
		if d := took(func() { must(t, b.store(t, 3, 3)) }); d != time.Second || !slices.Equal(b.onDisk(), []uint64{1, 2, 3}) {
			t.Errorf("stored after %v, on disk are %v", d, b.onDisk())
		}
	})
}

// TestSnapshotThatEndsWithABarrier: the log is cut there while the barrier is on its
// way to the disk, where it stays.
func TestSnapshotThatEndsWithABarrier(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		must(t, b.store(t, 1, 3))
		b.leading = true
		must(t, b.StoreLog(&raft.Log{Index: 4, Term: 1, Type: raft.LogBarrier}))
		if d := took(func() { must(t, b.DeleteRange(1, 4)) }); d > 0 {
			t.Errorf("cut after %v", d)
		}
		must(t, b.store(t, 5, 5))
		wantLog(t, b.asyncLog, 4, 5)
		must(t, b.waitDurable(5))
		wantLog(t, b.asyncLog, 4, 5)
		if on := b.onDisk(); !slices.Equal(on, []uint64{4, 5}) {
			t.Errorf("on disk are %v", on)
		}
	})
}

// TestRefusedWriteAsideFailsTheReplica: and nothing that it was to store
// settles.
func TestRefusedWriteAsideFailsTheReplica(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		b.leading, b.refuse = true, errDisk
		must(t, b.store(t, 1, 1))
		if err := b.waitDurable(1); !errors.Is(err, errDisk) || !errors.Is(b.failed, errDisk) {
			t.Errorf("settled: %v; the replica fails with %v", err, b.failed)
		}
		if err := b.store(t, 2, 2); !errors.Is(err, errDisk) {
			t.Errorf("the next entry: %v", err)
		}
		if b.durableIndex(1) != 0 {
			t.Errorf("durable up to %d, want 0", b.durableIndex(1))
		}
	})
}

// TestHungWriteAside is seen for as long as it lasts.
func TestHungWriteAside(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		b.leading = true
		if b.writingFor() != 0 {
			t.Error("a write before any")
		}
		must(t, b.store(t, 1, 1))
		time.Sleep(900 * time.Millisecond) // virtual
		if d := b.writingFor(); d != 900*time.Millisecond {
			t.Errorf("writing for %v, want 900ms", d)
		}
		must(t, b.waitDurable(1))
		if b.writingFor() != 0 {
			t.Error("a write after the last")
		}
	})
}

// TestEntriesAreOnDiskBeforeALaterTerm: in that a follower would acknowledge
// them.
func TestEntriesAreOnDiskBeforeALaterTerm(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		votes := &voteStore{StableStore: raft.NewInmemStore(), waitDurable: b.waitAll, fail: func(err error) { t.Error(err) }}
		b.leading = true
		must(t, b.store(t, 1, 4))
		b.leading = false
		if d := took(func() { must(t, votes.SetUint64([]byte(KeyTerm), 2)) }); d != time.Second || len(b.onDisk()) != 4 {
			t.Errorf("the term is entered after %v, and on disk are %v", d, b.onDisk())
		}
		if d := took(func() { must(t, votes.SetUint64([]byte(KeyTerm), 3)) }); d > 0 {
			t.Errorf("nothing is waited for %v", d)
		}
	})
	t.Run("not at all where the disk refuses", func(t *testing.T) {
		async(t, func(t *testing.T, b *asyncBench) {
			terms := raft.NewInmemStore()
			votes := &voteStore{StableStore: terms, waitDurable: b.waitAll, fail: func(err error) { t.Error(err) }}
			b.leading, b.refuse = true, errDisk
			must(t, b.store(t, 1, 4))
			ended := make(chan bool)
			go func() { // the library's main loop
				defer close(ended)
				_ = votes.SetUint64([]byte(KeyTerm), 2)
				t.Error("it goes on")
			}()
			<-ended
			if term, _ := terms.GetUint64([]byte(KeyTerm)); term != 0 || !errors.Is(b.failed, errDisk) {
				t.Errorf("it is in term %d; the replica fails with %v", term, b.failed)
			}
		})
	})
}

// TestWritesAreTimed: a write to the log is counted for as long as it takes,
// also one that fails, and a leader's, which goes on behind its back.
func TestWritesAreTimed(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		took, disk := histogram.New(500*time.Millisecond, time.Second), histogram.New()
		b.asyncLog.took, b.asyncLog.disk = took, disk
		must(t, b.store(t, 1, 3))
		b.leading = true
		must(t, b.store(t, 4, 4))
		must(t, b.waitDurable(4))
		if s := took.Snapshot(); s.Count != 2 || s.Sum != 2*time.Second || s.UpTo[time.Second] != 2 || s.UpTo[500*time.Millisecond] != 0 {
			t.Errorf("%+v", s)
		}
		if s := disk.Snapshot(); s.Count != 1 || s.Sum != time.Second {
			t.Errorf("a leader's own entries: %+v", s)
		}
		for _, c := range []struct {
			index, term uint64
			own         bool
		}{{4, 1, true}, {4, 2, false}, {3, 1, false}, {4 + CacheSize, 1, false}} {
			if left, at, own := b.landed.find(c.index, c.term); own != c.own || own && (at != b.clock() || left != at-time.Second) {
				t.Errorf("entry %d of term %d: %v, %v, %v", c.index, c.term, left, at, own)
			}
		}
	})
}
