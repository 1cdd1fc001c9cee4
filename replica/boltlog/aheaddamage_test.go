package boltlog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/replica/disk"
	"github.com/stoutlock/stout/replica/wal"
)

// TestDamageAhead: a flipped bit, or a block that is lost although a later
// write was acknowledged, is found.
func TestDamageAhead(t *testing.T) { bothTorn(t, testDamageAhead) }

func testDamageAhead(t *testing.T, w torn) {
	raw := w.read(t, w.after, wal.FileName)
	read := func(raw []byte) (int, error) {
		logs, _, err := wal.Parse(bytes.NewReader(raw), w.mark)
		return len(logs), err
	}
	if n, err := read(raw); n != 30 || err != nil {
		t.Fatalf("it reads %d entries, %v", n, err)
	}
	for _, n := range testrun.Sample(t, 300, 2000) {
		random := rand.New(rand.NewPCG(damageSeed+uint64(n), 12))
		bit := 8*wal.BlockSize*areaOf(uint64(n)) + random.IntN(8*80*wal.BlockSize)
		raw[bit/8] ^= 1 << (bit % 8)
		if n, err := read(raw); err == nil {
			t.Errorf("bit %d is flipped, and it reads %d entries", bit, n)
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	lose := func(at int) {
		lost := bytes.Clone(raw)
		clear(lost[at*wal.BlockSize : (at+1)*wal.BlockSize])
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
		copy(lost[at*wal.BlockSize:(at+1)*wal.BlockSize], raw[(at-1)*wal.BlockSize:])
		if n, err := read(lost); !errors.Is(err, disk.ErrDamaged) {
			t.Errorf("block %d is that before it, and it reads %d entries, %v", at, n, err)
		}
	}
	if first := areaOf(w.mark.Generation); first != w.area {
		for at := first; at < first+4; at++ { // blocks of the generation that is being handed over
			lose(at)
		}
	}
	if n, err := read(raw); n != 30 || err != nil {
		t.Errorf("the test has changed it: it reads %d entries, %v", n, err)
	}
}

// TestDamagedWriteAheadLogIsNotOpened: the message names the file and the cure,
// and both files stay unchanged, with the write-ahead log on or off.
func TestDamagedWriteAheadLogIsNotOpened(t *testing.T) {
	bothTorn(t, testDamagedWriteAheadLogIsNotOpened)
}

func testDamagedWriteAheadLogIsNotOpened(t *testing.T, w torn) {
	file := w.read(t, w.after, wal.FileName)
	for name, damage := range map[string]func(name string) error{
		"gone":      os.Remove,
		"cut short": func(name string) error { return os.Truncate(name, wal.BlockSize*100+3) },
		"empty":     func(name string) error { return os.Truncate(name, 0) },
		"garbage": func(name string) error {
			return os.WriteFile(name, bytes.Repeat([]byte("garbage!"), len(file)/8), 0o600)
		},
		"a bit": func(name string) error {
			raw := bytes.Clone(file)
			raw[w.area*wal.BlockSize+700] ^= 4
			return os.WriteFile(name, raw, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(w.after)))
			must(t, damage(filepath.Join(dir, wal.FileName)))
			wantRefused(t, dir, true, wal.FileName)
			wantRefused(t, dir, false, wal.FileName)
		})
	}
}

// TestLostTransactionIsFound: raft.db loses its last transaction. raft.wal
// shows that there was one, because something was written after it.
func TestLostTransactionIsFound(t *testing.T) {
	for name, change := range map[string]func(*Log) error{
		"a vote":          func(f *Log) error { return f.Set([]byte("LastVoteCand"), []byte("r9")) },
		"a deletion":      func(f *Log) error { return f.DeleteRange(8, 10) },
		"a snapshot note": func(f *Log) error { return f.NoteSnapshot(5) },
	} {
		t.Run(name, func(t *testing.T) {
			f := ahead(t)
			must(t, f.StoreLogs(entries(1, 5, 1)))
			must(t, f.SetUint64([]byte("CurrentTerm"), 1))
			must(t, f.StoreLogs(entries(6, 10, 1)))
			before, err := os.ReadFile(f.name)
			must(t, err)
			must(t, change(f))
			must(t, f.StoreLogs(entries(f.manifest.Load().Entries.last()+1, 11, 2)))
			dir := asLeft(t, f)
			must(t, os.WriteFile(filepath.Join(dir, FileName), before, 0o600))
			if g, err := Open(dir, true, true); err == nil {
				t.Errorf("opened:\n%s", contents(t, g))
				must(t, g.Close())
			} else if !strings.Contains(err.Error(), "a transaction that the store does not have") {
				t.Error(err)
			}
		})
	}
}
