package boltlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/replica/wal"
)

// talkingHome signals when it begins to store and when it has stored.
type talkingHome struct {
	boltStore
	before, after func()
}

func (h *talkingHome) StoreLogs(logs []*raft.Log) error {
	if h.before != nil {
		h.before()
	}
	err := h.boltStore.StoreLogs(logs)
	if h.after != nil {
		h.after()
	}
	return err
}

// TestCrashBesideATransaction: entries are stored while each kind of
// transaction is under way. After a crash before the transaction is on the
// disk, the log has its former contents and the entries. After a crash behind
// it the log has the change and the entries. Reads during the transaction
// return the former contents and the entries.
func TestCrashBesideATransaction(t *testing.T) {
	for _, seed := range testrun.Sample(t, 1, 2) {
		random := rand.New(rand.NewPCG(damageSeed, 20+uint64(seed)))
		f := ahead(t)
		at, term := uint64(0), uint64(1)
		store := func(n int) {
			logs := entries(at+1, at+uint64(n), term)
			at += uint64(n)
			must(t, f.StoreLogs(logs))
		}
		var before, after, held string // directories, and what the log holds
		home := &talkingHome{f.bolt, func() {
			for range random.IntN(4) {
				store(1 + random.IntN(9))
			}
			before, held = leftNow(t, f), contents(t, f)
		}, func() {
			for range random.IntN(3) {
				store(1 + random.IntN(9))
			}
			after = leftNow(t, f)
		}}
		f.bolt = home
		tried := testrun.Sample(t, 5, 12)
		for n := range 12 {
			store(1 + random.IntN(30))
			var err error
			what := [...]string{"a hand-over", "a vote", "a snapshot", "a compaction"}[random.IntN(4)]
			switch what {
			case "a hand-over":
				store(wal.FullEntries)
			case "a vote":
				term++
				err = f.Set([]byte("LastVoteCand"), fmt.Append(nil, "r", term))
			case "a snapshot":
				err = f.NoteSnapshot(at / 2)
			case "a compaction":
				err = f.DeleteRange(1, at/2+1)
			}
			must(t, err)
			f.work.Wait()
			if !slices.Contains(tried, n) {
				continue
			}
			for dir, want := range map[string]string{before: held, after: contents(t, f)} {
				for _, with := range []bool{random.IntN(3) > 0, true} {
					if got := reopened(t, dir, with); got != want {
						t.Fatalf("seed %d, write %d: after a crash within %s the log holds\n%s\nwant\n%s", seed, n, what, got, want)
					}
				}
			}
		}
	}
}

// TestTruncationBesideAHandOver: entries are in raft-boltdb, on their way
// there, and only in the write-ahead log. The truncation removes them from all
// three, and others replace them.
func TestTruncationBesideAHandOver(t *testing.T) {
	for _, from := range []uint64{1, 20, 60, 60 + wal.FullEntries, 65 + wal.FullEntries} {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			f := ahead(t)
			must(t, f.StoreLogs(entries(1, 50, 1)))
			must(t, vote(f, 1, "r2"))
			must(t, f.StoreLogs(entries(51, 55, 1)))
			began, goOn := make(chan struct{}), make(chan struct{})
			home := f.bolt
			f.bolt = &talkingHome{boltStore: home, before: func() { close(began); <-goOn }}
			must(t, f.StoreLogs(entries(56, 55+wal.FullEntries, 1)))
			<-began
			f.bolt = home
			last := uint64(70 + wal.FullEntries)
			must(t, f.StoreLogs(entries(56+wal.FullEntries, last, 1)))
			deleted := make(chan error)
			go func() { deleted <- f.DeleteRange(from, last) }()
			close(goOn)
			must(t, <-deleted)
			if got, _ := f.LastIndex(); got != from-1 {
				t.Errorf("the last entry is %d", got)
			}
			must(t, f.StoreLogs(entries(from, from+3, 2)))
			wantReopened(t, f, true)
			must(t, f.StoreLogs(entries(from+4, last+wal.FullEntries, 2)))
			wantReopened(t, f, false)
		})
	}
}

// TestCompactionBesideTruncation: a compaction reaches into entries that are
// being replaced. It takes effect before the new ones are stored, even if it
// ends later, so they stay. Raft never does this, because it compacts only
// committed entries.
func TestCompactionBesideTruncation(t *testing.T) {
	for _, inTurn := range []bool{true, false} {
		t.Run(fmt.Sprintf("one after the other=%v", inTurn), func(t *testing.T) {
			f := ahead(t)
			must(t, f.StoreLogs(entries(1, 10, 1)))
			began, goOn := make(chan struct{}), make(chan struct{})
			if inTurn {
				must(t, f.DeleteRange(8, 10))
			}
			home := f.bolt
			f.bolt = &talkingHome{boltStore: home, before: func() { close(began); <-goOn }}
			compacted, truncated := make(chan error, 1), make(chan error, 1)
			go func() { compacted <- f.DeleteRange(1, 10) }()
			<-began
			if inTurn {
				must(t, f.StoreLogs(entries(8, 9, 2)))
				truncated <- nil
			} else {
				go func() { truncated <- f.DeleteRange(8, 10) }()
			}
			f.bolt = home
			close(goOn)
			must(t, errors.Join(<-compacted, <-truncated))
			if !inTurn {
				must(t, f.StoreLogs(entries(8, 9, 2)))
			}
			if got := f.manifest.Load().Entries; len(got) != 1 || got[0] != (span{8, 9}) {
				t.Errorf("the log has %v", got)
			}
			wantReopened(t, f, true)
		})
	}
}

// TestEntriesFasterThanTheirHome: entries that do not fit in the write-ahead
// log wait for the current transaction, and then need a transaction that also
// stores everything before them.
func TestEntriesFasterThanTheirHome(t *testing.T) {
	f := ahead(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	home := f.bolt
	f.bolt = &talkingHome{boltStore: home, before: func() { close(began); <-goOn }}
	at := uint64(0)
	next := func() []*raft.Log {
		at++
		return []*raft.Log{{Index: at, Term: 1, Data: make([]byte, wal.AreaBlocks*wal.BlockSize/4)}}
	}
	for range 3 {
		must(t, f.StoreLogs(next()))
	}
	<-began
	f.bolt = home
	logs := next()
	for stored := true; stored; {
		var err error
		if stored, err = f.storeAhead(logs); stored {
			logs = next()
		} else {
			must(t, err)
		}
	}
	if at < 6 {
		t.Errorf("there was room for %d entries", at-1)
	}
	close(goOn)
	must(t, f.StoreLogs(logs))
	if r := f.manifest.Load(); !r.Entries.covers(1, at) || len(f.wal.Fresh()) != 0 {
		t.Errorf("there is %v, of which %d entries are in the write-ahead log only", r.Entries, len(f.wal.Fresh()))
	}
	wantReopened(t, f, true)
}

// TestStoredAgainBesideATransaction: the later entry counts.
func TestStoredAgainBesideATransaction(t *testing.T) {
	f := ahead(t)
	must(t, f.StoreLogs(entries(1, 5, 1)))
	f.bolt = &talkingHome{boltStore: f.bolt, before: func() { must(t, f.StoreLogs(entries(5, 5, 2))) }}
	must(t, f.NoteSnapshot(1))
	var l raft.Log
	if err := f.GetLog(5, &l); err != nil || l.Term != 2 {
		t.Errorf("entry 5 is read as %+v, %v", l, err)
	}
	wantReopened(t, f, true)
}

// TestEntriesDoNotWait: entries do not wait for any kind of transaction that
// takes a second.
func TestEntriesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := ahead(t)
		f.bolt = &talkingHome{boltStore: f.bolt, before: func() { time.Sleep(time.Second) }}
		at := uint64(0)
		store := func(n uint64) {
			began := time.Now()
			for range n {
				at++
				must(t, f.StoreLogs(entries(at, at, 1)))
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("entries up to %d have waited for %v", at, took)
			}
		}
		store(wal.FullEntries + 100)
		f.work.Wait()
		for _, write := range []func() error{
			func() error { return f.SetUint64([]byte("CurrentTerm"), 3) },
			func() error { return f.NoteSnapshot(at / 2) },
			func() error { return f.DeleteRange(1, 50) },
		} {
			done := make(chan error)
			go func() { done <- write() }()
			synctest.Wait()
			store(100)
			must(t, <-done)
		}
		f.work.Wait()
		if first, _ := f.FirstIndex(); first != 51 || !f.manifest.Load().Entries.covers(51, at) {
			t.Errorf("there is %v of 51 to %d", f.manifest.Load().Entries, at)
		}
	})
}
