package raftstore

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/lease"
)

// disk is a stable store and a log store. It fails on demand, and records the
// order of writes.
type disk struct {
	*raft.InmemStore
	wrote  []string
	refuse string // key, or "log", for which the write fails
	stored func()
}

var errDisk = errors.New("no space left on device")

func (d *disk) write(what string) error {
	if d.refuse == what {
		return errDisk
	}
	d.wrote = append(d.wrote, what)
	return nil
}

func (d *disk) SetUint64(key []byte, v uint64) error {
	if err := d.write(string(key)); err != nil {
		return err
	}
	return d.InmemStore.SetUint64(key, v)
}

func (d *disk) Set(key, v []byte) error {
	if err := d.write(string(key)); err != nil {
		return err
	}
	return d.InmemStore.Set(key, v)
}

func (d *disk) StoreLogs(logs []*raft.Log) error {
	if err := d.write("log"); err != nil {
		return err
	}
	if d.stored != nil {
		d.stored()
	}
	return d.InmemStore.StoreLogs(logs)
}

func (d *disk) DeleteRange(from, to uint64) error {
	if err := d.write("log"); err != nil {
		return err
	}
	return d.InmemStore.DeleteRange(from, to)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// vote writes a vote as hashicorp/raft does.
func vote(s raft.StableStore, term uint64, candidate string) error {
	if err := s.SetUint64([]byte(keyVoteTerm), term); err != nil {
		return err
	}
	return s.Set([]byte(keyVoteCandidate), []byte(candidate))
}

// voted returns the last vote that a replica would read from the disk at a
// start.
func voted(t *testing.T, d *disk) (uint64, string) {
	t.Helper()
	term, err := d.GetUint64([]byte(keyVoteTerm))
	if err != nil && err.Error() != "not found" {
		t.Fatal(err)
	}
	candidate, err := d.Get([]byte(keyVoteCandidate))
	if err != nil && err.Error() != "not found" {
		t.Fatal(err)
	}
	return term, string(candidate)
}

// onDisk reports that the whole log is on the disk.
func onDisk() error { return nil }

// onDiskUpTo reports the same for one entry.
func onDiskUpTo(uint64) error { return nil }

func TestVoteIsWrittenCandidateFirst(t *testing.T) {
	d := &disk{InmemStore: raft.NewInmemStore()}
	s := &voteStore{StableStore: d, waitDurable: onDisk, clock: func() time.Duration { return 1 }, fail: func(err error) { t.Error(err) }}
	if err := vote(s, 3, "r2"); err != nil {
		t.Fatal(err)
	}
	if want := []string{keyVoteCandidate, keyVoteTerm}; !reflect.DeepEqual(d.wrote, want) {
		t.Errorf("wrote %v, want %v", d.wrote, want)
	}
	if term, candidate := voted(t, d); term != 3 || candidate != "r2" {
		t.Errorf("voted for %q in term %d", candidate, term)
	}
	if err := s.SetUint64([]byte("CurrentTerm"), 4); err != nil {
		t.Fatal(err)
	}
	if v, _ := d.GetUint64([]byte("CurrentTerm")); v != 4 {
		t.Errorf("another number was held back: %d", v)
	}
}

// TestCrashWithinAVote: the replica has not voted in the new term, at any point
// of the crash.
func TestCrashWithinAVote(t *testing.T) {
	for name, crash := range map[string]func(*voteStore, *disk){
		"before anything": func(s *voteStore, d *disk) {
			_ = s.SetUint64([]byte(keyVoteTerm), 4)
		},
		"candidate written": func(s *voteStore, d *disk) {
			d.refuse = keyVoteTerm
			if vote(s, 4, "r3") == nil {
				t.Error("a vote that was not written is told as one")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{InmemStore: raft.NewInmemStore()}
			s := &voteStore{StableStore: d, waitDurable: onDisk, clock: func() time.Duration { return 1 }, fail: func(error) {}}
			if err := vote(s, 3, "r2"); err != nil {
				t.Fatal(err)
			}
			crash(s, d)
			if term, _ := voted(t, d); term != 3 {
				t.Errorf("after the crash: voted in term %d, want 3", term)
			}
		})
	}
}

func TestStoreErrorsFailTheReplica(t *testing.T) {
	for name, write := range map[string]func(*logStore, *voteStore) error{
		"entry":     func(l *logStore, _ *voteStore) error { return l.StoreLog(&raft.Log{Index: 1, Term: 1}) },
		"delete":    func(l *logStore, _ *voteStore) error { return l.DeleteRange(1, 2) },
		"term":      func(_ *logStore, v *voteStore) error { return v.SetUint64([]byte("CurrentTerm"), 1) },
		"candidate": func(_ *logStore, v *voteStore) error { return vote(v, 1, "r1") },
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{InmemStore: raft.NewInmemStore()}
			d.refuse = map[string]string{"entry": "log", "delete": "log", "term": "CurrentTerm", "candidate": keyVoteCandidate}[name]
			var failed error
			fail := func(err error) { failed = err }
			promises := lease.NewPromises(0)
			clock := func() time.Duration { return time.Hour }
			async := newAsyncLog(d, func() bool { return false }, clock, fail)
			defer async.close()
			l := &logStore{LogStore: async, applied: func() uint64 { return 0 }, leading: func() bool { return false }, promises: promises, clock: clock, fail: fail}
			goesOn, told := make(chan error, 1), false
			go func() { // the library's main loop
				defer close(goesOn)
				goesOn <- write(l, &voteStore{StableStore: d, waitDurable: onDisk, clock: func() time.Duration { return 1 }, fail: fail})
			}()
			for err := range goesOn {
				if told = true; !errors.Is(err, errDisk) {
					t.Errorf("raft is told %v", err)
				}
			}
			if told == (name == "term") {
				t.Errorf("its main loop goes on: %v; at an error of a term it panics", told)
			}
			if !errors.Is(failed, errDisk) {
				t.Errorf("the replica fails with %v", failed)
			}
			if promises.Last() != 0 {
				t.Error("an entry that was not stored made a promise")
			}
		})
	}
}

// TestStoringABatchIsAPromise: the promise is recorded after the store has
// returned, and for no other kind of entry.
func TestStoringABatchIsAPromise(t *testing.T) {
	now := time.Second
	d := &disk{InmemStore: raft.NewInmemStore(), stored: func() { now += time.Second }}
	promises := lease.NewPromises(0)
	l := &logStore{LogStore: d, applied: func() uint64 { return 0 }, promises: promises, clock: func() time.Duration { return now }, fail: func(err error) { t.Error(err) }}
	last := uint64(0)
	store := func(kinds ...raft.LogType) {
		var logs []*raft.Log
		for _, k := range kinds {
			last++
			logs = append(logs, &raft.Log{Index: last, Term: 1, Type: k})
		}
		if err := l.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
	}
	store(raft.LogNoop, raft.LogBarrier, raft.LogConfiguration)
	if promises.Last() != 0 {
		t.Errorf("entries without a batch promised something at %v", promises.Last())
	}
	store(raft.LogNoop, raft.LogCommand, raft.LogNoop)
	if promises.Last() != now || now != 3*time.Second {
		t.Errorf("promised at %v, want %v: after the store has returned", promises.Last(), now)
	}
	if r := promises.Before(1); r != 0 {
		t.Errorf("the term's own batch counts: %v", r)
	}
	if r := promises.Before(2); r != now {
		t.Errorf("a later term counts from %v, want %v", r, now)
	}
}

// TestFollowerKnowsWhereItsSnapshotEnds: a follower looks for the last entry of
// its snapshot, which is not in its log, and finds the term. A leader does not,
// because it would send the entry.
func TestFollowerKnowsWhereItsSnapshotEnds(t *testing.T) {
	snapshots, leading := raft.NewInmemSnapshotStore(), false
	l := &logStore{
		applied:  func() uint64 { return 0 },
		LogStore: raft.NewInmemStore(), snapshots: snapshots, leading: func() bool { return leading },
		fail: func(err error) { t.Error(err) }, sending: sending{clock: func() time.Duration { return 1 }},
	}
	var got raft.Log
	if err := l.GetLog(7, &got); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("without a snapshot: %v", err)
	}
	_, wire := raft.NewInmemTransport("")
	sink, err := snapshots.Create(raft.SnapshotVersionMax, 7, 3, raft.Configuration{}, 1, wire)
	must(t, err)
	must(t, sink.Close())
	if err := l.GetLog(7, &got); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("at the end of a snapshot whose finish has failed: %v", err)
	}
	l.finished(7)
	for _, other := range []uint64{6, 8} {
		if err := l.GetLog(other, &got); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("entry %d beside the snapshot's end: %v", other, err)
		}
	}
	if err := l.GetLog(7, &got); err != nil || got.Index != 7 || got.Term != 3 || got.Type != StandIn {
		t.Errorf("at the snapshot's end: %+v, %v", got, err)
	}
	leading = true
	if err := l.GetLog(7, &got); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("as a leader: %v", err)
	}
}

// TestCompacted: the snapshot ends at entry 7, and the log begins behind some entry.
func TestCompacted(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to uint64 // of the log; 0 for none
		index    uint64
		want     bool
	}{
		{"an empty log", 0, 0, 6, true},
		{"the snapshot's end", 0, 0, 7, false},
		{"a log behind the snapshot", 8, 9, 6, true},
		{"before a log that reaches into it", 5, 9, 4, true},
		{"in the log", 5, 9, 5, false},
		{"behind the snapshot", 5, 9, 8, false},
	} {
		snapshots, log := raft.NewInmemSnapshotStore(), raft.NewInmemStore()
		l := newLogStore(t, log, snapshots)
		if _, _, ok := l.compacted(c.index); ok {
			t.Errorf("%s: compacted without a snapshot", c.name)
		}
		finish(t, snapshots, 7, 3)
		l.finished(7)
		if c.to > 0 {
			must(t, log.StoreLogs(entries(c.from, c.to, 3)))
		}
		end, term, ok := l.compacted(c.index)
		if ok != c.want || ok && (end != 7 || term != 3) {
			t.Errorf("%s: %d, %d, %v", c.name, end, term, ok)
		}
	}
}

// canceledSink records whether it was canceled.
type canceledSink struct {
	raft.SnapshotSink
	canceled bool
}

func (s *canceledSink) Cancel() error {
	s.canceled = true
	return s.SnapshotSink.Cancel()
}

// TestSnapshotsGoForward: a snapshot that is older than the last is not
// accepted, and not finished.
func TestSnapshotsGoForward(t *testing.T) {
	store := forwardOnly{raft.NewInmemSnapshotStore(), &logStore{LogStore: raft.NewInmemStore()}, onDiskUpTo}
	_, wire := raft.NewInmemTransport("")
	take := func(index uint64) error {
		sink, err := store.Create(raft.SnapshotVersionMax, index, 1, raft.Configuration{}, 1, wire)
		if err == nil {
			err = sink.Close()
		}
		return err
	}
	must(t, take(5))
	must(t, take(7))
	must(t, take(7))
	if err := take(6); err == nil || !strings.Contains(err.Error(), "up to entry 6 is behind the last one, up to 7") {
		t.Errorf("an older snapshot: %v", err)
	}
	own, err := store.Create(raft.SnapshotVersionMax, 8, 1, raft.Configuration{}, 1, wire)
	must(t, err)
	canceled := &canceledSink{SnapshotSink: own.(*forwardSink).SnapshotSink}
	own.(*forwardSink).SnapshotSink = canceled
	must(t, take(9)) // from a leader, while it takes its own
	if err := own.Close(); err == nil || !canceled.canceled || !strings.Contains(err.Error(), "up to entry 8 is behind the last one, up to 9") {
		t.Errorf("one that was overtaken: %v", err)
	}
	metas, err := store.List()
	if err != nil || metas[0].Index != 9 {
		t.Errorf("the last one ends at %d, %v", metas[0].Index, err)
	}
}
