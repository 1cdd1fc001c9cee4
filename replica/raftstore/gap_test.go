package raftstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/datadir"
)

// TestLeaderReadsNothingFromBeforeAGap: what stands before a snapshot that was
// installed may never have been committed, and would be sent as if it was. As a
// follower it has to be read, to be told from what a leader sends.
func TestLeaderReadsNothingFromBeforeAGap(t *testing.T) {
	for name, log := range map[string]raft.LogStore{"a file": gappedFile(t), "another store": gappedStore(t)} {
		t.Run(name, func(t *testing.T) {
			leading := true
			l := &logStore{LogStore: log, snapshots: raft.NewInmemSnapshotStore(), leading: func() bool { return leading },
				fail: func(err error) { t.Error(err) }}
			must(t, l.gap.find(log))
			reads(t, l, 60, 80, false)
			reads(t, l, 81, 120, true)
			leading = false
			reads(t, l, 1, 60, true)
		})
	}
}

// TestGapThatComesWhileTheLogIsOpen: the entry behind a snapshot makes it.
func TestGapThatComesWhileTheLogIsOpen(t *testing.T) {
	leading := false
	l := &logStore{LogStore: raft.NewInmemStore(), snapshots: raft.NewInmemSnapshotStore(), leading: func() bool { return leading },
		fail: func(err error) { t.Error(err) }, clock: func() time.Duration { return 0 }, promises: lease.NewPromises(0)}
	store := func(from, to, term uint64) { t.Helper(); must(t, l.StoreLogs(entries(from, to, term))) }
	store(5, 18, 3) // the first entry of a log that begins behind a snapshot is no gap
	leading = true
	reads(t, l, 5, 18, true)
	leading = false
	must(t, l.DeleteRange(17, 18)) // entries that another leader replaces make none
	store(17, 20, 4)
	leading = true
	reads(t, l, 5, 20, true)
	leading = false
	store(41, 45, 5)
	leading = true
	reads(t, l, 5, 20, false)
	reads(t, l, 41, 45, true)
	leading = false
	must(t, l.DeleteRange(41, 45)) // and it is there still when what is behind it is replaced
	store(41, 50, 6)
	leading = true
	reads(t, l, 5, 20, false)
	reads(t, l, 41, 50, true)
}

// TestGapBehindASnapshot: there is nothing behind it yet, and the replica
// leads.
func TestGapBehindASnapshot(t *testing.T) {
	snapshots := raft.NewInmemSnapshotStore()
	newLog := func() *logStore {
		l := &logStore{LogStore: raft.NewInmemStore(), snapshots: snapshots, leading: func() bool { return true },
			fail: func(err error) { t.Error(err) }, clock: func() time.Duration { return 0 }, promises: lease.NewPromises(0)}
		must(t, l.StoreLogs(entries(1, 25, 3)))
		return l
	}
	l := newLog()
	store := forwardOnly{snapshots, l}
	_, wire := raft.NewInmemTransport("")
	sink, err := store.Create(raft.SnapshotVersionMax, 25, 3, raft.Configuration{}, 1, wire)
	must(t, errors.Join(err, sink.Close()))
	reads(t, l, 1, 25, true) // its own
	sink, err = store.Create(raft.SnapshotVersionMax, 400, 5, raft.Configuration{}, 1, wire)
	must(t, err)
	reads(t, l, 1, 25, true)
	must(t, sink.Close())
	reads(t, l, 1, 25, false)

	l = newLog() // as it is opened again
	must(t, l.look(l.LogStore))
	reads(t, l, 1, 25, false)
	must(t, l.StoreLogs(entries(401, 403, 6)))
	reads(t, l, 1, 25, false)
	reads(t, l, 401, 403, true)
}

// reads checks whether entries can be read.
func reads(t *testing.T, l *logStore, from, to uint64, want bool) {
	t.Helper()
	for i := from; i <= to; i++ {
		var got raft.Log
		err := l.GetLog(i, &got)
		if (err == nil) != want || err != nil && !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("entry %d, leading %v: %v", i, l.leading(), err)
		}
	}
}

// gappedFile is a log with a gap, as behind an installed snapshot: entries 1 to
// 60 of term 1 and 81 to 120 of term 2.
func gappedFile(t *testing.T) raft.LogStore {
	d, err := datadir.Claim(t.TempDir(), "test", "r1")
	must(t, err)
	s, err := d.Open(false, zerolog.Nop())
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return gapped(t, s.Logs)
}

// gappedStore is one in memory.
func gappedStore(t *testing.T) raft.LogStore { return gapped(t, raft.NewInmemStore()) }

func gapped(t *testing.T, s raft.LogStore) raft.LogStore {
	must(t, s.StoreLogs(entries(1, 60, 1)))
	must(t, s.StoreLogs(entries(81, 120, 2)))
	return s
}

// entries are log entries from one index to another, of one term.
func entries(from, to, term uint64) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Data: fmt.Appendf(nil, "entry %d of term %d", i, term)})
	}
	return logs
}
