package raftstore

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/metric"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

// asyncBench is an asyncLog over a disk that takes a second of virtual time for
// each write.
type asyncBench struct {
	*asyncLog
	disk    *raft.InmemStore
	refuse  atomic.Pointer[error] // the disk's answer to writes
	failed  error                 // what the replica failed with
	leading bool
}

func (b *asyncBench) StoreLogs(logs []*raft.Log) error { // as the disk
	time.Sleep(time.Second)
	if err := b.refuse.Load(); err != nil {
		return *err
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

// took returns how much virtual time do takes.
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
		if took(func() { must(t, errors.Join(b.waitStored(3), b.waitCommitted(3, 1))) }) > 0 {
			t.Error("what is on disk is waited for")
		}
	})
}

// TestLeadersEntriesGoToDiskAside: the library continues at once and reads
// them; their effects wait.
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
		if d := took(func() { must(t, errors.Join(b.waitStored(2), b.waitCommitted(2, 1))) }); d > 0 {
			t.Errorf("an entry that is on disk is waited for, %v", d)
		}
		if d := took(func() { must(t, b.waitCommitted(3, 1)) }); d != time.Second || !slices.Equal(b.onDisk(), []uint64{1, 2, 3, 4}) {
			t.Errorf("entry 3 settled after %v, on disk are %v", d, b.onDisk())
		}
		// The two entries that came during the write are one write.
		if d := took(func() { must(t, b.waitCommitted(6, 1)) }); d != time.Second || len(b.onDisk()) != 6 || b.size != 0 {
			t.Errorf("entry 6 settled after %v, on disk are %v", d, b.onDisk())
		}
	})
}

// TestLeadersFirstEntryIsOnDisk: entries of earlier terms take effect with it,
// and the library uses a configuration at once. Both are stored behind the
// queue.
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
			must(t, b.waitStored(2))
			if on := b.onDisk(); !slices.Equal(on, []uint64{1, 2}) {
				t.Errorf("%v: on disk are %v", kind, on)
			}
		})
	}
}

// TestDeposedLeaderWritesInOrder: its entries as a follower go behind its
// entries as leader, even if those are deleted again in a later term.
func TestDeposedLeaderWritesInOrder(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		votes := &voteStore{StableStore: raft.NewInmemStore(), waitDurable: b.waitAll, clock: func() time.Duration { return 1 }, fail: func(err error) { t.Error(err) }}
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

// TestRefusedWriteAsideFailsTheReplica: entries of the refused write are never
// committed.
func TestRefusedWriteAsideFailsTheReplica(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		b.leading = true
		b.refuse.Store(&errDisk)
		must(t, b.store(t, 1, 1))
		if err := b.waitCommitted(1, 1); !errors.Is(err, errDisk) || !errors.Is(b.waitStored(1), errDisk) || !errors.Is(b.failed, errDisk) {
			t.Errorf("settled: %v; the replica fails with %v", err, b.failed)
		}
		if err := b.store(t, 2, 2); !errors.Is(err, errDisk) {
			t.Errorf("the next entry: %v", err)
		}
	})
}

// TestOwnDiskLast: an entry of the leader's term is committed when a majority
// has it without the leader, even if the leader's disk hangs. It still is not
// stored there.
func TestOwnDiskLast(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		type stored struct{ index, term uint64 }
		var others atomic.Pointer[stored] // have so much of a term
		others.Store(&stored{})
		b.elsewhere = func(index, term uint64) bool { return term == others.Load().term && index <= others.Load().index }
		has := func(index, term uint64) {
			others.Store(&stored{index, term})
			b.acknowledged()
		}
		b.leading = true
		must(t, b.store(t, 1, 4)) // on disk in a second
		began := time.Now()
		settled := make(map[uint64]time.Duration)
		ended := make(chan bool)
		go func() {
			defer close(ended)
			for i := uint64(1); i <= 4; i++ {
				must(t, b.waitCommitted(i, 1))
				settled[i] = time.Since(began)
			}
		}()
		for _, step := range []struct{ index, term uint64 }{
			{1, 1}, // at 100 ms
			{9, 2}, // of another term
			{3, 1},
		} {
			time.Sleep(100 * time.Millisecond) // virtual
			has(step.index, step.term)
		}
		synctest.Wait()
		if len(b.onDisk()) != 0 || b.waits.Load() != true {
			t.Errorf("on disk are %v", b.onDisk())
		}
		if d := took(func() { must(t, b.waitStored(3)) }); d != 700*time.Millisecond {
			t.Errorf("entry 3 was stored after another %v", d)
		}
		<-ended
		for i, want := range []time.Duration{100, 300, 300, 1000} {
			if got := settled[uint64(i+1)]; got != want*time.Millisecond {
				t.Errorf("entry %d settled after %v, want %v", i+1, got, want*time.Millisecond)
			}
		}
	})
}

// TestQueueIsBounded: a leader with a hanging disk waits for it when the queue
// is full.
func TestQueueIsBounded(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		b.leading = true
		store := func(i uint64) error {
			return b.asyncLog.StoreLogs([]*raft.Log{{Index: i, Term: 1, Type: raft.LogCommand, Data: make([]byte, mostQueued/4)}})
		}
		for i, want := range []time.Duration{0, 0, 0, 0, time.Second, time.Second, 0} { // the first write has one entry, the second three
			if d := took(func() { must(t, store(uint64(i+1))) }); d != want {
				t.Errorf("entry %d waits %v, want %v", i+1, d, want)
			}
			synctest.Wait()
		}
		b.refuse.Store(&errDisk)
		if err := errors.Join(store(8), store(9)); !errors.Is(err, errDisk) {
			t.Errorf("behind a refused write: %v", err)
		}
	})
}

// TestSnapshotsWaitForTheLog: a leader's state may be ahead of its disk.
func TestSnapshotsWaitForTheLog(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		store := forwardOnly{raft.NewInmemSnapshotStore(), &logStore{LogStore: b.asyncLog}, b.waitStored}
		begin := func(index uint64) error {
			_, err := store.Create(1, index, 1, raft.Configuration{}, 1, nil)
			return err
		}
		b.leading = true
		must(t, b.store(t, 1, 2))
		synctest.Wait()
		must(t, b.store(t, 3, 3))
		if d := took(func() { must(t, begin(2)) }); d != time.Second {
			t.Errorf("begun after %v, want a second", d)
		}
		b.refuse.Store(&errDisk)
		if err := begin(3); !errors.Is(err, errDisk) {
			t.Errorf("of an entry that the disk has refused: %v", err)
		}
	})
}

// TestHungWriteAside: the hang is visible as long as it lasts.
func TestHungWriteAside(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		b.leading = true
		if writingFor(&b.began, b.clock) != 0 {
			t.Error("a write before any")
		}
		must(t, b.store(t, 1, 1))
		time.Sleep(900 * time.Millisecond) // virtual
		if d := writingFor(&b.began, b.clock); d != 900*time.Millisecond {
			t.Errorf("writing for %v, want 900ms", d)
		}
		must(t, b.waitStored(1))
		if writingFor(&b.began, b.clock) != 0 {
			t.Error("a write after the last")
		}
	})
}

// slowVotes takes a second for each write.
type slowVotes struct{ *raft.InmemStore }

func (s slowVotes) SetUint64(key []byte, value uint64) error {
	time.Sleep(time.Second)
	return s.InmemStore.SetUint64(key, value)
}

// TestHungVote: a write of a term or a vote is visible, too. It has the library's
// main loop wait.
func TestHungVote(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		votes := &voteStore{StableStore: slowVotes{raft.NewInmemStore()}, waitDurable: b.waitAll, clock: b.clock, fail: func(err error) { t.Error(err) }}
		s := &Stores{async: b.asyncLog, votes: votes, clock: b.clock}
		go func() { _ = votes.SetUint64([]byte(KeyTerm), 7) }()
		time.Sleep(900 * time.Millisecond)
		if d := s.WritingFor(); d != 900*time.Millisecond {
			t.Errorf("writing for %v, want 900ms", d)
		}
		time.Sleep(200 * time.Millisecond)
		if d := s.WritingFor(); d != 0 {
			t.Errorf("writing for %v after the end", d)
		}
	})
}

// TestEntriesAreOnDiskBeforeALaterTerm: a follower would acknowledge them in
// that term.
func TestEntriesAreOnDiskBeforeALaterTerm(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		votes := &voteStore{StableStore: raft.NewInmemStore(), waitDurable: b.waitAll, clock: func() time.Duration { return 1 }, fail: func(err error) { t.Error(err) }}
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
			votes := &voteStore{StableStore: terms, waitDurable: b.waitAll, clock: func() time.Duration { return 1 }, fail: func(err error) { t.Error(err) }}
			b.leading = true
			b.refuse.Store(&errDisk)
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

// TestWritesAreTimed: each write to the log is timed, including a failed one,
// and a leader's write in the background.
func TestWritesAreTimed(t *testing.T) {
	async(t, func(t *testing.T, b *asyncBench) {
		took, disk := metric.NewHistogram(500*time.Millisecond, time.Second), metric.NewHistogram()
		b.asyncLog.took, b.asyncLog.disk = took, disk
		must(t, b.store(t, 1, 3))
		b.leading = true
		must(t, b.store(t, 4, 4))
		must(t, b.waitStored(4))
		if s := took.Snapshot(); s.Count != 2 || s.Sum != 2*time.Second || s.UpTo[time.Second] != 2 || s.UpTo[500*time.Millisecond] != 0 {
			t.Errorf("%+v", s)
		}
		if s := disk.Snapshot(); s.Count != 1 || s.Sum != time.Second {
			t.Errorf("a leader's own entries: %+v", s)
		}
		arrived := b.clock()
		must(t, b.store(t, 5, 5)) // is on its way
		for _, c := range []struct {
			index, term   uint64
			own           bool
			left, arrived time.Duration
		}{
			{4, 1, true, arrived - time.Second, arrived}, {5, 1, true, arrived, 0},
			{4, 2, false, 0, 0}, {3, 1, false, 0, 0}, {4 + CacheSize, 1, false, 0, 0},
		} {
			if left, at, own := b.landed.find(c.index, c.term); own != c.own || own && (at != c.arrived || left != c.left) {
				t.Errorf("entry %d of term %d: %v, %v, %v", c.index, c.term, left, at, own)
			}
		}
	})
}
