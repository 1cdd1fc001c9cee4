package wal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// entries returns log entries from one index to another, in one term.
func entries(from, to, term uint64) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Data: fmt.Appendf(nil, "entry %d of term %d %s", i, term, bytes.Repeat([]byte{'x'}, 200))})
	}
	return logs
}

// FuzzWAL: for any file, reading it ends with entries or an error.
func FuzzWAL(f *testing.F) {
	none := []byte(nil)
	f.Add(frame(nil, Mark{4, 0}, true, 0, entries(1, 1, 1)), none, uint64(4), uint64(0))
	f.Add(append(frame(nil, Mark{4, 7}, true, 0, entries(1, 9, 1)), frame(nil, Mark{2, 3}, false, 4, entries(1, 1, 1))...), frame(nil, Mark{5, 8}, false, AreaBlocks, entries(10, 10, 1)), uint64(4), uint64(7))
	f.Add(frame(nil, Mark{4, 8}, false, 0, entries(10, 10, 1)), frame(nil, Mark{3, 7}, true, AreaBlocks, entries(1, 9, 1)), uint64(3), uint64(7))
	f.Add([]byte{1}, none, uint64(1), uint64(0))
	f.Fuzz(func(t *testing.T, even, odd []byte, generation, number uint64) {
		raw := make([]byte, 2*AreaBlocks*BlockSize)
		copy(raw, even)
		copy(raw[AreaBlocks*BlockSize:], odd)
		_, _, _ = Parse(bytes.NewReader(raw), Mark{generation, number})
		_, _ = appendEntries(nil, even[:min(len(even), 1000)])
	})
}

// TestMarkWithoutAFrame: such a mark names no start, and entries may be nowhere
// else. They are not skipped.
func TestMarkWithoutAFrame(t *testing.T) {
	dir := t.TempDir()
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(dir, Mark{Generation: 3}); err == nil || !strings.Contains(err.Error(), "has no number") {
		t.Errorf("read: %v", err)
	}
}

// TestAreaIsFilledToItsEnd and no further: behind it are the entries of the
// generation before, which may be nowhere else.
func TestAreaIsFilledToItsEnd(t *testing.T) {
	blocks := func(n int) *raft.Log { // an entry that takes so many
		l := &raft.Log{Index: 1, Term: 1}
		l.Data = make([]byte, n*roomSize-entrySize(l))
		return l
	}
	for generation := range uint64(2) {
		dir := t.TempDir()
		must(t, Create(dir))
		w, err := Open(dir, generation)
		must(t, err)
		defer w.Close()
		mark := w.now
		must(t, w.Append([]*raft.Log{blocks(AreaBlocks - 2)}))
		for n, want := range map[int]bool{1: true, 2: true, 3: false} {
			if w.Fits([]*raft.Log{blocks(n)}) != want {
				t.Errorf("2 blocks are left; an entry of %d fits: %v", n, !want)
			}
		}
		if w.Fits([]*raft.Log{blocks(1), blocks(1), blocks(1)}) {
			t.Error("2 blocks are left; three entries of one fit")
		}
		must(t, w.Append([]*raft.Log{blocks(2)}))
		if w.Fits([]*raft.Log{{Index: 3, Term: 1}}) {
			t.Error("no block is left, and an entry fits")
		}
		if read, _, err := Read(dir, mark); err != nil || len(read) != 2 {
			t.Errorf("%d entries are read, %v", len(read), err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
