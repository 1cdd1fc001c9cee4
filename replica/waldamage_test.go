package replica

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestDamageAhead: a flipped bit, or a block that is lost although a later write was
// acknowledged, is found.
func TestDamageAhead(t *testing.T) {
	f, _, raw := tornWAL(t)
	r, generation := f.record.Load(), f.wal.generation
	if r.Entries.last() != 90 || f.wal.frames != 10 {
		t.Fatalf("%d frames up to %v", f.wal.frames, r.Entries)
	}
	sound, err := readWAL(bytes.NewReader(raw), generation)
	must(t, err)
	random := rand.New(rand.NewPCG(damageSeed, 12))
	for range 2000 {
		bit := random.IntN(8 * (f.wal.next + 60) * walBlock)
		raw[bit/8] ^= 1 << (bit % 8)
		if logs, err := readWAL(bytes.NewReader(raw), generation); err == nil {
			t.Errorf("bit %d is flipped, and it reads %d entries", bit, len(logs))
		}
		raw[bit/8] ^= 1 << (bit % 8)
	}
	last := 9 // blocks of the frames before the last one
	for at := range last {
		lost := bytes.Clone(raw)
		clear(lost[at*walBlock : (at+1)*walBlock])
		if logs, err := readWAL(bytes.NewReader(lost), generation); err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("block %d is lost, and it reads %d entries, %v", at, len(logs), err)
		}
		if at > 0 {
			copy(lost[at*walBlock:(at+1)*walBlock], raw[(at-1)*walBlock:])
			if logs, err := readWAL(bytes.NewReader(lost), generation); !errors.Is(err, errDamaged) {
				t.Errorf("block %d is that before it, and it reads %d entries, %v", at, len(logs), err)
			}
		}
	}
	if again, err := readWAL(bytes.NewReader(raw), generation); err != nil || !reflect.DeepEqual(again, sound) {
		t.Errorf("the test has changed it: %v", err)
	}
}

// TestDamagedWriteAheadLogIsNotOpened: the message names the file and the cure, and
// both files are left as they are, whether a write-ahead log is wanted or not.
func TestDamagedWriteAheadLogIsNotOpened(t *testing.T) {
	f, _, file := tornWAL(t)
	for name, damage := range map[string]func(name string) error{
		"gone":      os.Remove,
		"cut short": func(name string) error { return os.Truncate(name, walBlock*100+3) },
		"empty":     func(name string) error { return os.Truncate(name, 0) },
		"garbage": func(name string) error {
			return os.WriteFile(name, bytes.Repeat([]byte("garbage!"), len(file)/8), 0o600)
		},
		"a bit": func(name string) error {
			raw := bytes.Clone(file)
			raw[700] ^= 4
			return os.WriteFile(name, raw, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := asLeft(t, f)
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
	f.Add(walFrame(3, 0, 0, entries(1, 1, 1)), uint64(3))
	f.Add(append(walFrame(3, 0, 0, entries(1, 9, 1)), walFrame(2, 8, 4, entries(1, 1, 1))...), uint64(3))
	f.Add([]byte{1}, uint64(1))
	f.Fuzz(func(t *testing.T, raw []byte, generation uint64) {
		raw = append(raw, make([]byte, max(0, walBlocks*walBlock-len(raw)))...)
		_, _ = readWAL(bytes.NewReader(raw), generation)
		_, _ = appendWALEntries(nil, raw[:min(len(raw), 1000)])
	})
}
