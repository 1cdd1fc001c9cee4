package raftstore

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/datadir"
)

// entries returns log entries from one index to another, in one term.
func entries(from, to, term uint64) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Data: fmt.Appendf(nil, "entry %d of term %d", i, term)})
	}
	return logs
}

// newLogStore returns a follower's logStore over a log.
func newLogStore(t *testing.T, log raft.LogStore, snapshots raft.SnapshotStore) *logStore {
	return &logStore{LogStore: log, snapshots: snapshots, applied: func() uint64 { return 0 }, leading: func() bool { return false },
		fail: func(err error) { t.Error(err) }, clock: func() time.Duration { return 0 }, promises: lease.NewPromises(0)}
}

// finish finishes a snapshot.
func finish(t *testing.T, store raft.SnapshotStore, index, term uint64) {
	t.Helper()
	_, wire := raft.NewInmemTransport("")
	sink, err := store.Create(raft.SnapshotVersionMax, index, term, raft.Configuration{}, 1, wire)
	must(t, err)
	must(t, sink.Close())
}

// wantLog checks which entries a log has.
func wantLog(t *testing.T, log raft.LogStore, from, to uint64) {
	t.Helper()
	first, err := log.FirstIndex()
	must(t, err)
	last, err := log.LastIndex()
	must(t, err)
	if first != from || last != to {
		t.Errorf("the log has entries %d to %d, want %d to %d", first, last, from, to)
	}
}

// TestDiscardWhatDisagreesWithASnapshot: an opened log continues from its
// latest snapshot, or is discarded.
func TestDiscardWhatDisagreesWithASnapshot(t *testing.T) {
	for _, c := range []struct {
		name             string
		term             uint64 // of the snapshot's last entry, 20; the log's entries have term 3
		from, to         uint64
		wantFrom, wantTo uint64
	}{
		{"it has the snapshot's end", 3, 5, 24, 5, 24},
		{"it ends with the snapshot", 3, 5, 20, 5, 20},
		{"it has another entry there", 4, 5, 24, 0, 0},
		{"it begins with another entry there", 4, 20, 24, 0, 0},
		{"it begins behind the snapshot", 4, 21, 24, 21, 24},
		{"it ends one entry before the snapshot", 3, 5, 19, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			snapshots, log := raft.NewInmemSnapshotStore(), raft.NewInmemStore()
			finish(t, snapshots, 20, c.term)
			must(t, log.StoreLogs(entries(c.from, c.to, 3)))
			must(t, newLogStore(t, log, snapshots).look(log))
			wantLog(t, log, c.wantFrom, c.wantTo)
		})
	}
}

// readingLog calls a function whenever an entry was read.
type readingLog struct {
	raft.LogStore
	read func()
}

func (l readingLog) GetLog(index uint64, log *raft.Log) error {
	defer l.read()
	return l.LogStore.GetLog(index, log)
}

// TestDeletedConfigurationIsForgotten: a goroutine that replicates for an earlier
// leader may read a configuration just before it is deleted. At the start every
// configuration that is read counts.
func TestDeletedConfigurationIsForgotten(t *testing.T) {
	read := func() {}
	under := raft.NewInmemStore()
	l := newLogStore(t, readingLog{under, func() { read() }}, raft.NewInmemSnapshotStore())
	configuration := func(index uint64) []*raft.Log {
		return []*raft.Log{{Index: index, Term: 3, Type: raft.LogConfiguration}}
	}
	must(t, under.StoreLogs(configuration(1)))
	var got raft.Log
	must(t, l.GetLog(1, &got))
	if at := l.configs.latest(); at != 1 {
		t.Errorf("the last configuration read at the start is at %d", at)
	}
	must(t, l.StoreLogs(configuration(2)))
	read = func() { must(t, l.DeleteRange(2, 2)) }
	must(t, l.GetLog(2, &got))
	if at := l.configs.latest(); at != 1 {
		t.Errorf("entry 2 is deleted, and the last configuration at %d", at)
	}
}

// TestGapOfAnEarlierRelease: entries that an earlier release left before an
// installed snapshot may never have been committed. They are removed when the
// log is opened.
func TestGapOfAnEarlierRelease(t *testing.T) {
	for _, gap := range []uint64{1, 20} {
		t.Run(fmt.Sprintf("of %d entries", gap), func(t *testing.T) {
			d, err := datadir.Open(t.TempDir(), "test", "r1")
			must(t, err)
			s, err := d.Open(false, zerolog.Nop())
			must(t, err)
			defer s.Close()
			behind := 60 + gap
			must(t, s.Logs.StoreLogs(entries(1, 60, 1)))
			must(t, s.Logs.StoreLogs(entries(behind+1, behind+40, 2)))
			snapshots := raft.NewInmemSnapshotStore()
			finish(t, snapshots, behind, 2)
			must(t, newLogStore(t, s.Logs, snapshots).look(s.Logs))
			wantLog(t, s.Logs, behind+1, behind+40)
		})
	}
}

// TestInstalledSnapshotEmptiesTheLog: the library stores a stand-in if the log
// does not have the entry at which the snapshot ends.
func TestInstalledSnapshotEmptiesTheLog(t *testing.T) {
	log, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	l := newLogStore(t, log, snapshots)
	must(t, l.StoreLogs(entries(1, 17, 3)))
	must(t, l.StoreLogs([]*raft.Log{{Index: 18, Term: 3, Type: raft.LogConfiguration}}))
	finish(t, forwardOnly{snapshots, l, onDiskUpTo}, 20, 4)
	must(t, l.StoreLogs([]*raft.Log{{Index: 20, Term: 4, Type: StandIn}}))
	wantLog(t, log, 0, 0)
	if at := l.configs.latest(); at != 0 {
		t.Errorf("the last configuration of the log is at entry %d", at)
	}
	must(t, l.StoreLogs([]*raft.Log{{Index: 20, Term: 4, Type: StandIn}}))
	must(t, l.StoreLogs(entries(21, 23, 4)))
	wantLog(t, log, 21, 23)
}

// TestLogHasNoGap: an entry follows the last one, or the latest snapshot. A
// late one, which the snapshot has already, is refused.
func TestLogHasNoGap(t *testing.T) {
	store := func(t *testing.T, l *logStore, from, to uint64, want bool) {
		t.Helper()
		err := l.StoreLogs(entries(from, to, 3))
		var got raft.Log
		if there := l.LogStore.GetLog(from, &got) == nil; (err == nil) != want || there != want {
			t.Errorf("entries %d to %d: stored %v, %v", from, to, there, err)
		}
	}
	log, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	l := newLogStore(t, log, snapshots)
	store(t, l, 2, 3, false)
	store(t, l, 1, 5, true)
	store(t, l, 7, 7, false)
	store(t, l, 6, 6, true)
	must(t, l.DeleteRange(5, 6)) // entries that another leader replaces
	store(t, l, 6, 6, false)
	store(t, l, 5, 9, true)
	finish(t, forwardOnly{snapshots, l, onDiskUpTo}, 7, 3) // its own
	store(t, l, 10, 10, true)

	for _, again := range []bool{false, true} {
		log, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
		l := newLogStore(t, log, snapshots)
		finish(t, forwardOnly{snapshots, l, onDiskUpTo}, 7, 3) // of a leader
		if again {
			l = newLogStore(t, log, snapshots)
			must(t, l.look(log))
		}
		store(t, l, 1, 7, false)
		store(t, l, 1, 9, false)
		store(t, l, 9, 9, false)
		store(t, l, 8, 9, true)
	}
}

// TestLogOfADamagedSnapshotStays: the log reaches back to the snapshot before it.
func TestLogOfADamagedSnapshotStays(t *testing.T) {
	log, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	finish(t, snapshots, 20, 4)
	must(t, log.StoreLogs(entries(5, 19, 3)))
	must(t, newLogStore(t, log, unreadable{snapshots}).look(log))
	wantLog(t, log, 5, 19)
}

// unreadable lists snapshots that cannot be read.
type unreadable struct{ raft.SnapshotStore }

func (unreadable) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) { return nil, nil, errDisk }

// TestLogKeepsWhatAFollowerNeeds: while a leader sends a snapshot, and for as long
// again, its log keeps the entries behind that snapshot.
func TestLogKeepsWhatAFollowerNeeds(t *testing.T) {
	log, now, leads := raft.NewInmemStore(), time.Second, true
	must(t, log.StoreLogs(entries(1, 100, 1)))
	s, err := New(datadir.Stores{Logs: log, Votes: log, Snapshots: raft.NewInmemSnapshotStore()}, Options{
		Leading: func() bool { return leads }, Clock: func() time.Duration { return now }, Fail: func(err error) { t.Error(err) },
		Applied: func() uint64 { return 100 }, Promises: lease.NewPromises(0), SnapshotInterval: 30 * time.Second,
	})
	must(t, err)
	open := func() io.ReadCloser {
		metas, err := s.Snapshots.List()
		must(t, err)
		_, body, err := s.Snapshots.Open(metas[0].ID)
		must(t, err)
		return body
	}
	compact := func(to, wantFrom uint64) {
		t.Helper()
		finish(t, s.Snapshots, to, 1)
		first, err := s.Logs.FirstIndex()
		must(t, err)
		must(t, s.Logs.DeleteRange(first, to))
		wantLog(t, s.Logs, wantFrom, 100)
	}

	compact(10, 11)
	opening := s.logs.sending.begin() // as Open does first
	compact(15, 11)
	opening.end()
	read := func(body io.ReadCloser) {
		_, err := io.ReadAll(body)
		must(t, errors.Join(err, body.Close()))
	}

	compact(20, 21)
	long, short := open(), open()
	read(short) // its 30 s pass during the other transfer
	compact(40, 21)
	var end raft.Log
	if err := s.Logs.GetLog(20, &end); err != nil || end.Term != 1 {
		t.Errorf("the entry from which the follower continues: %+v, %v", end, err)
	}
	now += patience - 1
	progress := func(body io.ReadCloser) {
		_, err := body.Read(nil)
		must(t, err)
	}
	progress(long)
	now += patience - 1
	later := open()
	read(long)
	compact(50, 21)
	now += patience - 1
	progress(later)
	now += patience - 2
	compact(60, 21)
	now++
	compact(70, 41)        // the later transfer began with the snapshot up to 40
	must(t, later.Close()) // it has failed
	compact(75, 76)
	hangs := open()
	now += patience
	compact(80, 81)
	progress(hangs)
	compact(85, 86) // the log has lost what its follower needs: it keeps nothing for it
	must(t, hangs.Close())
	open()
	leads = false // a follower sends nothing
	compact(90, 91)
}

// TestLeaderContinuesOnlyWithTheNextEntry: a transfer that has stalled keeps no entries.
// A leader without the entry behind such a snapshot in its log does not try to continue
// from it, also if another snapshot ends at that entry.
func TestLeaderContinuesOnlyWithTheNextEntry(t *testing.T) {
	log := raft.NewInmemStore()
	must(t, log.StoreLogs(entries(22, 30, 1)))
	s := newLogStore(t, log, raft.NewInmemSnapshotStore())
	s.leading, s.sending.clock = func() bool { return true }, func() time.Duration { return 0 }
	for _, end := range []uint64{20, 21} {
		s.sending.begin().opened(end, 1, io.NopCloser(strings.NewReader("")))
	}
	var l raft.Log
	if err := s.GetLog(20, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("continues from 20 although the log begins at 22: %v", err)
	}
	if err := s.GetLog(21, &l); err != nil || l.Term != 1 {
		t.Errorf("%+v, %v at the entry before the log's first", l, err)
	}
}

// TestLogKeepsABoundedNumber of entries for a transfer that does not end.
func TestLogKeepsABoundedNumber(t *testing.T) {
	s := sending{clock: func() time.Duration { return 0 }}
	s.begin().opened(100, 1, io.NopCloser(strings.NewReader("")))
	for to, want := range map[uint64]uint64{50: 50, 200: 100, mostKept + 100: 100, mostKept + 500: 500} {
		if got := s.limit(1, to); got != want {
			t.Errorf("up to %d: %d, want %d", to, got, want)
		}
	}
}
