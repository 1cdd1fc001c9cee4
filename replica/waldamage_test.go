package replica

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDamageAhead: a flipped bit, or a block that is lost although a later write was
// acknowledged, is found.
func TestDamageAhead(t *testing.T) { bothTorn(t, testDamageAhead) }

func testDamageAhead(t *testing.T, w torn) {
	raw := w.read(t, w.after, walFileName)
	read := func(raw []byte) (int, error) {
		logs, _, err := readWAL(bytes.NewReader(raw), w.generation, w.frame)
		return len(logs), err
	}
	if n, err := read(raw); n != 30 || err != nil {
		t.Fatalf("it reads %d entries, %v", n, err)
	}
	random := rand.New(rand.NewPCG(damageSeed, 12))
	for n := range 2000 {
		bit := 8*walBlock*walArea(uint64(n)) + random.IntN(8*80*walBlock)
		raw[bit/8] ^= 1 << (bit % 8)
		if n, err := read(raw); err == nil {
			t.Errorf("bit %d is flipped, and it reads %d entries", bit, n)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	lose := func(at int) {
		lost := bytes.Clone(raw)
		clear(lost[at*walBlock : (at+1)*walBlock])
		if n, err := read(lost); err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("block %d is lost, and it reads %d entries, %v", at, n, err)
		}
	}
	for at := w.area; at < w.area+w.last; at++ { // blocks of the frames before the last one
		lose(at)
		if at == w.area {
			continue
		}
		lost := bytes.Clone(raw)
		copy(lost[at*walBlock:(at+1)*walBlock], raw[(at-1)*walBlock:])
		if n, err := read(lost); !errors.Is(err, errDamaged) {
			t.Errorf("block %d is that before it, and it reads %d entries, %v", at, n, err)
		}
	}
	if first := walArea(w.generation); first != w.area {
		for at := first; at < first+4; at++ { // blocks of the generation that is being handed over
			lose(at)
		}
	}
	if n, err := read(raw); n != 30 || err != nil {
		t.Errorf("the test has changed it: it reads %d entries, %v", n, err)
	}
}

// TestDamagedWriteAheadLogIsNotOpened: the message names the file and the cure, and
// both files are left as they are, whether a write-ahead log is wanted or not.
func TestDamagedWriteAheadLogIsNotOpened(t *testing.T) {
	bothTorn(t, testDamagedWriteAheadLogIsNotOpened)
}

func testDamagedWriteAheadLogIsNotOpened(t *testing.T, w torn) {
	file := w.read(t, w.after, walFileName)
	for name, damage := range map[string]func(name string) error{
		"gone":      os.Remove,
		"cut short": func(name string) error { return os.Truncate(name, walBlock*100+3) },
		"empty":     func(name string) error { return os.Truncate(name, 0) },
		"garbage": func(name string) error {
			return os.WriteFile(name, bytes.Repeat([]byte("garbage!"), len(file)/8), 0o600)
		},
		"a bit": func(name string) error {
			raw := bytes.Clone(file)
			raw[w.area*walBlock+700] ^= 4
			return os.WriteFile(name, raw, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(w.after)))
			must(t, damage(filepath.Join(dir, walFileName)))
			before, _ := os.ReadFile(filepath.Join(dir, walFileName))
			for _, with := range []bool{true, false} {
				g, err := openLog(dir, true, with)
				if err == nil {
					_ = g.Close()
					t.Fatal("opened")
				}
				for _, want := range []string{dir, walFileName, "docs/operations.md"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q does not say %q", err, want)
					}
				}
			}
			if after, _ := os.ReadFile(filepath.Join(dir, walFileName)); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

// FuzzWAL: whatever stands in the file, reading it ends with entries or an error.
func FuzzWAL(f *testing.F) {
	none := []byte(nil)
	f.Add(walFrame(4, 0, true, 0, entries(1, 1, 1)), none, uint64(4), uint64(0))
	f.Add(append(walFrame(4, 7, true, 0, entries(1, 9, 1)), walFrame(2, 3, false, 4, entries(1, 1, 1))...), walFrame(5, 8, false, walBlocks, entries(10, 10, 1)), uint64(4), uint64(7))
	f.Add(walFrame(4, 8, false, 0, entries(10, 10, 1)), walFrame(3, 7, true, walBlocks, entries(1, 9, 1)), uint64(3), uint64(7))
	f.Add([]byte{1}, none, uint64(1), uint64(0))
	f.Fuzz(func(t *testing.T, even, odd []byte, generation, frame uint64) {
		raw := make([]byte, 2*walBlocks*walBlock)
		copy(raw, even)
		copy(raw[walBlocks*walBlock:], odd)
		_, _, _ = readWAL(bytes.NewReader(raw), generation, frame)
		_, _ = appendWALEntries(nil, even[:min(len(even), 1000)])
	})
}

// TestLayoutBeforeTheFirstRelease: its entries are nowhere else, and are not passed over.
func TestLayoutBeforeTheFirstRelease(t *testing.T) {
	dir := t.TempDir()
	must(t, makeWAL(dir))
	if _, _, err := checkWAL(dir, &record{WAL: 3}); err == nil || !strings.Contains(err.Error(), "log-store bolt") {
		t.Errorf("checked: %v", err)
	}
}

// TestLostTransactionIsFound: raft.db goes back by the last transaction, and raft.wal
// shows that there was one, for something was written after it.
func TestLostTransactionIsFound(t *testing.T) {
	for name, change := range map[string]func(*logFile) error{
		"a vote":          func(f *logFile) error { return f.Set([]byte(keyVoteCandidate), []byte("r9")) },
		"a deletion":      func(f *logFile) error { return f.DeleteRange(8, 10) },
		"a snapshot note": func(f *logFile) error { return f.noteSnapshot(5) },
	} {
		t.Run(name, func(t *testing.T) {
			f := ahead(t)
			must(t, f.StoreLogs(entries(1, 5, 1)))
			must(t, f.SetUint64([]byte("CurrentTerm"), 1))
			must(t, f.StoreLogs(entries(6, 10, 1)))
			before, err := os.ReadFile(f.name)
			must(t, err)
			must(t, change(f))
			must(t, f.StoreLogs(entries(f.record.Load().Entries.last()+1, 11, 2)))
			dir := asLeft(t, f)
			must(t, os.WriteFile(filepath.Join(dir, logFileName), before, 0o600))
			if g, err := openLog(dir, true, true); err == nil {
				t.Errorf("opened:\n%s", contents(t, g))
				must(t, g.Close())
			} else if !strings.Contains(err.Error(), "transaction that "+logFileName+" does not have") {
				t.Error(err)
			}
		})
	}
}
