package boltlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/replica/wal"
)

// ahead creates a log with a write-ahead log.
func ahead(t *testing.T) *Log {
	t.Helper()
	f, err := Open(t.TempDir(), false, true)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// contents returns the whole contents of a log.
func contents(t *testing.T, f *Log) string {
	t.Helper()
	r := *f.manifest.Load()
	var out strings.Builder
	fmt.Fprintf(&out, "%v %d %v\n", r.Entries, r.Snapshot, r.Votes)
	for _, s := range r.Entries {
		for i := s.First; i <= s.Last; i++ {
			var l raft.Log
			must(t, f.GetLog(i, &l))
			fmt.Fprintf(&out, "%d %d %v %q %q %v\n", l.Index, l.Term, l.Type, l.Data, l.Extensions, l.AppendedAt.UTC())
		}
	}
	return out.String()
}

// asLeft returns a copy of a log's directory, as a crash leaves it while no
// entries are being moved.
func asLeft(t *testing.T, f *Log) string {
	t.Helper()
	f.work.Wait()
	return leftNow(t, f)
}

func leftNow(t *testing.T, f *Log) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Dir(f.name))))
	return dir
}

// reopened returns what a replica finds when it starts on a directory, with or
// without a write-ahead log from then on.
func reopened(t *testing.T, dir string, with bool) string {
	t.Helper()
	f, err := Open(dir, true, with)
	must(t, err)
	defer f.Close()
	if _, err := os.Stat(filepath.Join(dir, wal.FileName)); with != (err == nil) {
		t.Errorf("wanted=%v: %v", with, err)
	}
	return contents(t, f)
}

// wantReopened checks that a replica finds all that a log holds when it starts
// after a crash.
func wantReopened(t *testing.T, f *Log, with bool) {
	t.Helper()
	want := contents(t, f)
	if got := reopened(t, asLeft(t, f), with); got != want {
		t.Errorf("after a start the log holds\n%s\nwant\n%s", got, want)
	}
}

// TestNothingIsLostAhead: all writes, in any order, survive a crash after each
// one, even if the write-ahead log is turned off or on at the start.
func TestNothingIsLostAhead(t *testing.T) {
	for _, seed := range testrun.Sample(t, 1, 2) {
		random := rand.New(rand.NewPCG(damageSeed, uint64(seed)))
		f := ahead(t)
		at, term := uint64(0), uint64(1)
		store := func(n int) error {
			logs := entries(at+1, at+uint64(n), term)
			logs[0].Extensions, logs[0].AppendedAt = []byte("of the library"), time.Unix(1_700_000_000, int64(at))
			at += uint64(n)
			return f.StoreLogs(logs)
		}
		writes := []func() error{
			func() error { return store(1) },
			func() error { return store(1 + random.IntN(40)) },
			func() error { return store(wal.FullEntries + 1) },
			func() error { term++; return vote(f, term, "r2") },
			func() error { return f.NoteSnapshot(at / 2) },
			func() error { return f.DeleteRange(1, at/2) },
			func() error { // others are stored in the places of the last ones
				from := max(at, 3) - 2
				err := f.DeleteRange(from, at)
				at, term = from-1, term+1
				return errors.Join(err, store(2))
			},
		}
		tried := testrun.Sample(t, 4, 15)
		for n := range 60 {
			must(t, writes[min(random.IntN(12), len(writes)-1)*random.IntN(2)]())
			want := contents(t, f)
			if n%4 != 0 || !slices.Contains(tried, n/4) {
				continue
			}
			dir := asLeft(t, f)
			for _, with := range []bool{true, false, false, true} {
				if got := reopened(t, dir, with); got != want {
					t.Fatalf("seed %d, write %d: after a crash the log holds\n%s\nwant\n%s", seed, n, got, want)
				}
			}
		}
	}
}

// areaOf returns the first block of a generation's area.
func areaOf(generation uint64) int { return int(generation%2) * wal.AreaBlocks }

// torn is a log with a used write-ahead log, before and after its last write.
type torn struct {
	before, after string   // directories
	whole         string   // what it holds behind it
	mark          wal.Mark // of the manifest
	last          int      // frames before the last, which begin with the area, a block each
	area          int      // block
}

// tornWAL creates a torn, also one with a generation being moved to the store.
func tornWAL(t *testing.T, beside bool) (out torn) {
	t.Helper()
	f := ahead(t)
	must(t, f.StoreLogs(entries(1, 60, 1)))
	must(t, vote(f, 2, "r2"))
	r := f.manifest.Load()
	out.mark, out.last = r.WAL, 9
	write := func() {
		for i := r.Entries.last() + 1; i < 70; i++ {
			must(t, f.StoreLogs(entries(i, i, 2)))
		}
		out.before = leftNow(t, f)
		must(t, f.StoreLogs(entries(70, 90, 2)))
		out.after, out.whole = leftNow(t, f), contents(t, f)
	}
	out.area = areaOf(out.mark.Generation)
	if !beside {
		write()
		return out
	}
	for i := uint64(61); i < 65; i++ {
		must(t, f.StoreLogs(entries(i, i, 2)))
	}
	r, out.last, out.area = f.manifest.Load(), 5, areaOf(out.mark.Generation+1)
	f.bolt = &talkingHome{boltStore: f.bolt, before: write}
	must(t, f.NoteSnapshot(60))
	return out
}

func (w *torn) read(t *testing.T, dir, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, file))
	must(t, err)
	return raw
}

// bothTorn runs a test on a log of one generation, and of two.
func bothTorn(t *testing.T, test func(*testing.T, torn)) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprintf("beside=%v", beside), func(t *testing.T) { test(t, tornWAL(t, beside)) })
	}
}

// TestTornWriteAhead: any of the last write's blocks may have reached the disk.
// The log is as before it, or has all of it.
func TestTornWriteAhead(t *testing.T) {
	bothTorn(t, func(t *testing.T, w torn) {
		dir := w.before
		before, after, db := w.read(t, dir, wal.FileName), w.read(t, w.after, wal.FileName), w.read(t, dir, FileName)
		old := reopened(t, dir, true)
		var differ []int
		for at := 0; at < len(after); at += wal.BlockSize {
			if !bytes.Equal(before[at:at+wal.BlockSize], after[at:at+wal.BlockSize]) {
				differ = append(differ, at)
			}
		}
		if len(differ) < 5 {
			t.Fatalf("the last write is %d blocks", len(differ))
		}
		for _, n := range testrun.Sample(t, 10, 40) {
			random := rand.New(rand.NewPCG(damageSeed+uint64(n), 11))
			raw, there := bytes.Clone(before), 0
			for _, at := range differ {
				if random.IntN(len(differ)) <= n {
					there++
					copy(raw[at:at+wal.BlockSize], after[at:])
				}
			}
			must(t, os.WriteFile(filepath.Join(dir, wal.FileName), raw, 0o600))
			must(t, os.WriteFile(filepath.Join(dir, FileName), db, 0o600))
			must(t, os.Remove(filepath.Join(dir, highWaterFile))) // of the try before
			want := old
			if there == len(differ) {
				want = w.whole
			}
			if got := reopened(t, dir, true); got != want {
				t.Fatalf("%d of %d blocks: the log holds\n%s\nwant\n%s", there, len(differ), got, want)
			}
		}
	})
}

// TestTransactionsBehindTheWriteAheadLog: storing an entry needs no
// transaction. Any other write is one transaction, with the gathered entries.
func TestTransactionsBehindTheWriteAheadLog(t *testing.T) {
	f := ahead(t)
	wantTransactions(t, f, []writeCost{
		{"an entry", func() error { return f.StoreLog(entries(1, 1, 1)[0]) }, 0},
		{"entries", func() error { return f.StoreLogs(entries(2, 40, 1)) }, 0},
		{"the term", func() error { return f.SetUint64([]byte("CurrentTerm"), 3) }, 1},
		{"more entries", func() error { return f.StoreLogs(entries(41, 90, 3)) }, 0},
		{"a deletion", func() error { return f.DeleteRange(1, 20) }, 2},
		{"enough entries", func() error {
			return errors.Join(f.StoreLogs(entries(91, 90+wal.FullEntries, 3)), f.StoreLog(entries(91+wal.FullEntries, 91+wal.FullEntries, 3)[0]))
		}, 1},
		{"half of the area", func() error {
			return f.StoreLog(&raft.Log{Index: 92 + wal.FullEntries, Term: 3, Data: make([]byte, wal.AreaBlocks*wal.BlockSize/2)})
		}, 1},
		{"an entry too large", func() error {
			return f.StoreLog(&raft.Log{Index: 93 + wal.FullEntries, Term: 3, Data: make([]byte, wal.AreaBlocks*wal.BlockSize)})
		}, 1},
	})
}

// TestFailedWriteAhead: after an error both files accept no more writes.
func TestFailedWriteAhead(t *testing.T) {
	for name, breakIt := range map[string]func(f *Log) error{
		"the write-ahead log": func(f *Log) error {
			must(t, f.wal.Close())
			return f.StoreLogs(entries(2, 2, 1))
		},
		"a hand-over beside": func(f *Log) error {
			f.bolt = failingHome{f.bolt}
			f.flush()
			return f.StoreLogs(entries(2, 2, 1))
		},
		"the home": func(f *Log) error {
			f.bolt = failingHome{f.bolt}
			return f.SetUint64([]byte("CurrentTerm"), 7)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := ahead(t)
			must(t, f.StoreLogs(entries(1, 1, 1)))
			want := contents(t, f)
			if err := breakIt(f); err == nil {
				t.Fatal("no error")
			}
			if err := f.StoreLogs(entries(2, 2, 1)); err == nil {
				t.Error("an entry is taken")
			}
			if err := vote(f, 9, "r3"); err == nil {
				t.Error("a vote is taken")
			}
			if got := contents(t, f); got != want {
				t.Errorf("the log holds\n%s\nwant\n%s", got, want)
			}
			wantReopened(t, f, true)
		})
	}
}

// TestFailedDeletion: no transaction follows one that has failed. It could
// overwrite pages of the last one that is on the disk.
func TestFailedDeletion(t *testing.T) {
	f := ahead(t)
	must(t, f.StoreLogs(entries(1, 5, 1)))
	home := f.bolt
	f.bolt = &hookedHome{home, func() error { return errDisk }}
	if err := f.DeleteRange(1, 2); !errors.Is(err, errDisk) {
		t.Fatalf("deleted: %v", err)
	}
	f.bolt = home
	if err := vote(f, 9, "r3"); !errors.Is(err, errDisk) {
		t.Errorf("a vote behind it: %v", err)
	}
	wantReopened(t, f, true)
}

// TestWriteAheadLogStaysUntilItIsHandedOver: the write-ahead log is turned off
// at a start, and the store has no space. The next start has everything.
func TestWriteAheadLogStaysUntilItIsHandedOver(t *testing.T) {
	f := ahead(t)
	must(t, f.StoreLogs(entries(1, 5, 1)))
	want, dir := contents(t, f), asLeft(t, f)
	g := &Log{name: filepath.Join(dir, FileName)}
	checked, left, err := checkLog(g.name)
	must(t, err)
	behind, _, err := checked.readWAL(dir)
	must(t, err)
	must(t, g.lock(dir))
	must(t, g.eraseLeftovers(*checked, left))
	g.bolt = failingHome{g.bolt}
	if err := g.begin(dir, behind, false); !errors.Is(err, errDisk) {
		t.Errorf("begun: %v", err)
	}
	must(t, g.Close())
	if got := reopened(t, dir, false); got != want {
		t.Errorf("the log holds\n%s\nwant\n%s", got, want)
	}
}

// failingHome refuses to store.
type failingHome struct{ boltStore }

func (failingHome) StoreLogs([]*raft.Log) error { return errDisk }
