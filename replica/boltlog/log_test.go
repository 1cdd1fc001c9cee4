package boltlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/testrun"
)

var errDisk = errors.New("no space left on device")

func vote(s raft.StableStore, term uint64, candidate string) error {
	if err := s.SetUint64([]byte("LastVoteTerm"), term); err != nil {
		return err
	}
	return s.Set([]byte("LastVoteCand"), []byte(candidate))
}

// entries returns log entries from one index to another, in one term.
func entries(from, to, term uint64) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Data: fmt.Appendf(nil, "entry %d of term %d %s", i, term, bytes.Repeat([]byte{'x'}, 200))})
	}
	return logs
}

// openSound opens the log in a directory. It checks that the log has exactly
// the entries in its manifest, each in the given term.
func openSound(t *testing.T, dir string, want spans, termOf func(uint64) uint64) *Log {
	t.Helper()
	f, err := Open(dir, true, false)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	if have := f.manifest.Load(); !reflect.DeepEqual(have.Entries, want) || have.Deleted != nil {
		t.Errorf("the manifest names %v and of %v as deleted, want %v", have.Entries, have.Deleted, want)
	}
	if latest, _, err := readMetas(f.metas); err != nil || latest.txid != f.manifest.Load().Transaction {
		t.Errorf("the manifest of transaction %d was not written behind %d, %v", f.manifest.Load().Transaction, latest.txid, err)
	}
	if _, found, err := readFile(f.name); err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("the file holds %v, %v, want %v", found, err, want)
	}
	first, _ := f.FirstIndex()
	last, _ := f.LastIndex()
	if first != want.first() || last != want.last() {
		t.Errorf("from %d to %d, want %v", first, last, want)
	}
	for i := uint64(1); i <= 130; i++ {
		var l raft.Log
		err := f.GetLog(i, &l)
		switch there := want.covers(i, i); {
		case !there && !errors.Is(err, raft.ErrLogNotFound):
			t.Fatalf("entry %d, which was deleted: %+v, %v", i, l, err)
		case there && (err != nil || l.Term != termOf(i) || !bytes.Equal(l.Data, entries(i, i, termOf(i))[0].Data) || l.Extensions != nil):
			t.Fatalf("entry %d is read as %+v, %v", i, l, err)
		}
	}
	return f
}

// hookedHome calls a hook between the manifest of a deletion and the deletion.
type hookedHome struct {
	boltStore
	hook func() error
}

func (h *hookedHome) DeleteRange(from, to uint64) error {
	if err := h.hook(); err != nil {
		return err
	}
	return h.boltStore.DeleteRange(from, to)
}

// plain creates a log without a write-ahead log.
func plain(t *testing.T) *Log {
	t.Helper()
	f, err := Open(t.TempDir(), false, false)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// gapped creates a log with a gap, as behind an installed snapshot: entries 1
// to 60 of term 1 and 81 to 120 of term 2.
func gapped(t *testing.T) *Log {
	t.Helper()
	f := plain(t)
	must(t, f.StoreLogs(entries(1, 60, 1)))
	must(t, vote(f, 1, "r2"))
	must(t, f.NoteSnapshot(80))
	must(t, f.StoreLogs(entries(81, 120, 2)))
	return f
}

func termOf(i uint64) uint64 {
	if i <= 60 {
		return 1
	}
	return 2
}

// deletions are ranges to delete from a log that gapped has made.
var deletions = map[string]struct {
	from, to uint64
	left     spans
}{
	"compaction":             {1, 40, spans{{41, 60}, {81, 120}}},
	"compaction to the gap":  {1, 60, spans{{81, 120}}},
	"compaction past it":     {1, 90, spans{{91, 120}}},
	"truncation":             {100, 120, spans{{1, 60}, {81, 99}}},
	"truncation past it":     {50, 120, spans{{1, 49}}},
	"in the middle":          {30, 100, spans{{1, 29}, {101, 120}}},
	"of more than there is":  {0, 1 << 62, nil},
	"of nothing":             {121, 130, spans{{1, 60}, {81, 120}}},
	"of nothing, in the gap": {65, 70, spans{{1, 60}, {81, 120}}},
}

// TestDeleteRange deletes prefixes, suffixes and ranges in between.
func TestDeleteRange(t *testing.T) {
	for name, d := range deletions {
		t.Run(name, func(t *testing.T) {
			f := gapped(t)
			must(t, f.DeleteRange(d.from, d.to))
			must(t, f.Close())
			openSound(t, filepath.Dir(f.name), d.left, termOf)
		})
	}
}

// crashes makes a log copy its directory as a crash would leave it, each time
// between a manifest and the deletion in it.
func crashes(t *testing.T, f *Log) (dirs *[]string) {
	dirs = &[]string{}
	f.bolt = &hookedHome{f.bolt, func() error {
		*dirs = append(*dirs, t.TempDir())
		return os.CopyFS((*dirs)[len(*dirs)-1], os.DirFS(filepath.Dir(f.name)))
	}}
	return dirs
}

// crashesOfStart starts on a copy of a directory that has entries left over.
func crashesOfStart(t *testing.T, dir string, want spans) []string {
	t.Helper()
	f := &Log{name: filepath.Join(t.TempDir(), FileName)}
	must(t, os.CopyFS(filepath.Dir(f.name), os.DirFS(dir)))
	checked, left, err := checkLog(f.name)
	must(t, err)
	if !reflect.DeepEqual(left, want) {
		t.Errorf("the crash has left over %v, want %v", left, want)
	}
	must(t, f.lock(dir))
	dirs := crashes(t, f)
	must(t, errors.Join(f.eraseLeftovers(*checked, left), f.Close()))
	return *dirs
}

// TestCrashWithinDeleteRange: a crash comes between the manifest and the
// deletion, and again while the next start deletes the rest. The entries are
// gone anyway.
func TestCrashWithinDeleteRange(t *testing.T) {
	for name, d := range deletions {
		t.Run(name, func(t *testing.T) {
			f := gapped(t)
			over := f.manifest.Load().Entries
			for _, s := range d.left {
				over = over.without(s.First, s.Last)
			}
			first := crashes(t, f)
			must(t, errors.Join(f.DeleteRange(d.from, d.to), f.Close()))
			all := *first
			for _, dir := range *first {
				second := crashesOfStart(t, dir, over)
				if len(second) != len(over) {
					t.Errorf("%d crashes at the start that deletes %v", len(second), over)
				}
				all = append(all, second...)
			}
			if len(over) > 0 && len(all) < 2 {
				t.Errorf("%d crashes", len(all))
			}
			for _, dir := range all {
				f := openSound(t, dir, d.left, termOf)
				if r := f.manifest.Load(); r.Snapshot != 80 || string(r.Votes["LastVoteCand"]) != "r2" {
					t.Errorf("the crash has changed more: %+v", r)
				}
			}
		})
	}
}

// TestManyEntriesAreDeletedInParts: each part has transactions of its own, unless all
// entries are deleted.
func TestManyEntriesAreDeletedInParts(t *testing.T) {
	f := plain(t)
	var all []*raft.Log
	for i := range uint64(4*mostDeleted + 1) {
		all = append(all, &raft.Log{Index: i + 1, Term: 1, Data: []byte("x")})
	}
	must(t, f.StoreLogs(all))
	for _, c := range []struct{ to, parts, first uint64 }{
		{mostDeleted, 1, mostDeleted + 1}, {2*mostDeleted + 1, 2, 2*mostDeleted + 2}, {3 * mostDeleted, 1, 3*mostDeleted + 1},
		{4*mostDeleted + 1, 1, 0},
	} {
		before, _, err := readMetas(f.metas)
		must(t, err)
		must(t, f.DeleteRange(1, c.to))
		after, _, err := readMetas(f.metas)
		must(t, err)
		first, _ := f.FirstIndex()
		if got := after.txid - before.txid; first != c.first || got != 2*c.parts {
			t.Errorf("up to %d: the log begins with %d, after %d transactions", c.to, first, got)
		}
	}
}

// TestTruncatedEntriesDoNotComeBack: others are stored in their places, after a
// crash within the truncation, or one that the disk has refused.
func TestTruncatedEntriesDoNotComeBack(t *testing.T) {
	f := gapped(t)
	dir := filepath.Dir(f.name)
	f.bolt = &hookedHome{f.bolt, func() error { return errDisk }}
	if err := f.DeleteRange(100, 120); !errors.Is(err, errDisk) {
		t.Fatalf("error %v", err)
	}
	var l raft.Log
	if err := f.GetLog(110, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("the deleted entry is read as %+v, %v", l, err)
	}
	must(t, f.Close())
	f = openSound(t, dir, spans{{1, 60}, {81, 99}}, termOf)
	must(t, f.StoreLogs(entries(100, 105, 3)))
	must(t, f.Close())
	openSound(t, dir, spans{{1, 60}, {81, 105}}, func(i uint64) uint64 {
		if i >= 100 {
			return 3
		}
		return termOf(i)
	})
}

// TestStartsThatGetNoFurther: raft-boltdb commits a transaction whenever it
// opens the file. A replica that crashes after it, again and again, is not
// refused.
func TestStartsThatGetNoFurther(t *testing.T) {
	f := gapped(t)
	must(t, f.Close())
	for range 5 {
		_, _, err := checkLog(f.name)
		must(t, err)
		store, err := openBolt(f.name, false)
		must(t, err)
		must(t, store.Close())
	}
	openSound(t, filepath.Dir(f.name), spans{{1, 60}, {81, 120}}, termOf)
}

// TestOneTransactionPerWrite: every kind of write takes one transaction; a
// deletion takes two.
func TestOneTransactionPerWrite(t *testing.T) {
	f := gapped(t)
	wantTransactions(t, f, []writeCost{
		{"an entry", func() error { return f.StoreLog(entries(121, 121, 2)[0]) }, 1},
		{"entries", func() error { return f.StoreLogs(entries(122, 137, 2)) }, 1},
		{"the term", func() error { return f.SetUint64([]byte("CurrentTerm"), 3) }, 1},
		{"the candidate", func() error { return f.Set([]byte("LastVoteCand"), []byte("r3")) }, 1},
		{"a snapshot", func() error { return f.NoteSnapshot(100) }, 1},
		{"a deletion", func() error { return f.DeleteRange(1, 50) }, 2},
		{"a deletion of nothing", func() error { return f.DeleteRange(1, 50) }, 0},
	})
}

// writeCost is a write, and how many transactions of the store it takes.
type writeCost struct {
	name  string
	write func() error
	want  uint64
}

func wantTransactions(t *testing.T, f *Log, writes []writeCost) {
	t.Helper()
	for _, w := range writes {
		before, _, err := readMetas(f.metas)
		must(t, err)
		must(t, w.write())
		f.work.Wait()
		after, _, err := readMetas(f.metas)
		must(t, err)
		if n := after.txid - before.txid; n != w.want {
			t.Errorf("%s takes %d transactions, want %d", w.name, n, w.want)
		}
	}
}

// TestPagesLostBehindTheSync: the disk has acknowledged the pages of a
// transaction and shows their former contents. bbolt has often written those
// two transactions ago, with the same data. The loss is found, unless all data
// is there.
func TestPagesLostBehindTheSync(t *testing.T) {
	f, page := plain(t), os.Getpagesize()
	random := rand.New(rand.NewPCG(damageSeed, 5))
	at, term, deleted := uint64(0), uint64(1), uint64(0)
	writes := []func() error{
		func() error { at++; return f.StoreLogs(entries(at, at, term)) },
		func() error { at += 9; return f.StoreLogs(entries(at-8, at, term)) },
		func() error { term++; return f.SetUint64([]byte("CurrentTerm"), term) },
		func() error { return f.NoteSnapshot(at) },
		func() error { deleted += 2; return f.DeleteRange(1, min(deleted, at)) },
	}
	read := func() []byte {
		raw, err := os.ReadFile(f.name)
		must(t, err)
		return raw
	}
	const all = 100
	tried := testrun.Sample(t, 25, all)
	lost, found, before := 0, 0, read()
	for n := range all {
		must(t, writes[random.IntN(len(writes))]())
		after := read()
		if !slices.Contains(tried, n) {
			before = after
			continue
		}
		sound, err := verdict(t, after)
		must(t, err)
		for round := range 4 { // each page alone, and some together
			together := bytes.Clone(after)
			for p := 2 * page; p < min(len(before), len(after)); p += page {
				if bytes.Equal(before[p:p+page], after[p:p+page]) || round > 0 && random.IntN(2) == 0 {
					continue
				}
				raw := together
				if round == 0 {
					raw = bytes.Clone(after)
				}
				copy(raw[p:p+page], before[p:])
				if round > 0 {
					continue
				}
				lost++
				if got, err := verdict(t, raw); err != nil {
					found++
				} else if !reflect.DeepEqual(got, sound) {
					t.Fatalf("write %d: page %d is lost, and the log reads %+v, want %+v", n, p/page, got, sound)
				}
			}
			if got, err := verdict(t, together); err == nil && !reflect.DeepEqual(got, sound) {
				t.Fatalf("write %d: pages are lost, and the log reads %+v, want %+v", n, got, sound)
			}
		}
		before = after
	}
	t.Logf("of %d lost pages %d were found", lost, found)
	if found < 100*len(tried)/all {
		t.Errorf("%d lost pages were found", found)
	}
}

// TestLogsThatRaftDoesNotWrite: entries that no manifest names do not count as
// left over from a crash, and terms do not go back.
func TestLogsThatRaftDoesNotWrite(t *testing.T) {
	for want, write := range map[string]func(*Log) error{
		"121": func(f *Log) error {
			return errors.Join(f.bolt.StoreLogs([]*raft.Log{sealed(entries(121, 121, 2)[0])}), f.write(nil, unchanged))
		},
		"121 is of term 1": func(f *Log) error { return f.StoreLogs(entries(121, 121, 1)) },
	} {
		f := gapped(t)
		must(t, errors.Join(write(f), f.Close()))
		if _, _, err := checkLog(f.name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the check says %v, want %q", err, want)
		}
	}
}

// TestLostEntryIsNoGap: for a missing entry the library would send a snapshot,
// or assume that the entry never existed.
func TestLostEntryIsNoGap(t *testing.T) {
	f := gapped(t)
	must(t, f.erase(50, 50))
	var l raft.Log
	if err := f.GetLog(50, &l); err == nil || errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("entry 50 is read as %+v, %v", l, err)
	}
	must(t, f.write(nil, unchanged))
	must(t, f.Close())
	if _, err := Open(filepath.Dir(f.name), true, false); err == nil || !strings.Contains(err.Error(), "lost entry 50") {
		t.Errorf("the start says %v", err)
	}
}

// TestLogIsOneProcessOnly: another process gets an error and changes nothing,
// even while the replica is being founded. So does a process that was checking
// the log at that time.
func TestLogIsOneProcessOnly(t *testing.T) {
	dir := t.TempDir()
	f, err := Open(dir, false, false)
	must(t, err)
	for _, founded := range []bool{false, true} {
		if _, err := Open(dir, founded, false); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("founded=%v: %v", founded, err)
		}
	}
	if _, err := os.Stat(f.name); err != nil {
		t.Error(err)
	}
	must(t, f.Close())
	other := &Log{name: f.name}
	checked, left, err := checkLog(f.name)
	must(t, err)
	f, err = Open(dir, true, false)
	must(t, err)
	must(t, vote(f, 7, "r3"))
	must(t, f.Close())
	if err := other.open(dir, checked, left, nil, false); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened over the other's vote: %v", err)
	}
	f, err = Open(dir, true, false)
	must(t, err)
	defer f.Close()
	if term, err := f.GetUint64([]byte("LastVoteTerm")); err != nil || term != 7 {
		t.Errorf("voted in term %d, %v", term, err)
	}
}
