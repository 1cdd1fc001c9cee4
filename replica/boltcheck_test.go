package replica

import (
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// inUse are the pages of a kind that the latest transaction of a file uses.
func inUse(t *testing.T, file []byte, flags uint16) (offsets []int) {
	t.Helper()
	page := os.Getpagesize()
	for at := 2 * page; at < len(file); at += page {
		h := parseHeader(file[at:])
		if h.flags != flags || h.id != uint64(at/page) || h.count < 2 {
			continue
		}
		wrecked := slices.Clone(file)
		wrecked[at] ^= 1 // its id
		if _, err := verdict(wrecked); err != nil {
			offsets = append(offsets, at)
		}
	}
	if len(offsets) == 0 {
		t.Fatalf("no page with flags %#x is in use", flags)
	}
	return offsets
}

// TestMisleadingBranches: a branch whose keys differ from its children's sends
// who looks for an entry to the wrong child. All entries are there, and bbolt
// does not find them.
func TestMisleadingBranches(t *testing.T) {
	_, file := aLog(t)
	want := holds(t, file)
	found := 0
	for _, at := range inUse(t, file, boltBranch) {
		for i := range parseHeader(file[at:]).count {
			head := at + boltHeader + i*boltElement
			key := head + int(binary.NativeEndian.Uint32(file[head:]))
			for bit := range 8 {
				wrecked := slices.Clone(file)
				wrecked[key+7] ^= 1 << bit
				if _, err := verdict(wrecked); err != nil {
					found++
				} else if holds(t, wrecked) != want {
					t.Fatalf("bit %d of key %d of the branch at %d is flipped: entries are not found", bit, i, at)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no flipped key was found")
	}
}

// TestSwappedEntries: each matches its checksum, and a binary search misses them.
func TestSwappedEntries(t *testing.T) {
	_, file := aLog(t)
	for _, at := range inUse(t, file, boltLeaf) {
		a, b := file[at+boltHeader:], file[at+boltHeader+boltElement:]
		first, second := slices.Clone(a[:boltElement]), slices.Clone(b[:boltElement])
		move := func(head []byte, by int32) { // a position counts from its own element
			binary.NativeEndian.PutUint32(head[4:], binary.NativeEndian.Uint32(head[4:])+uint32(by))
		}
		move(first, -boltElement)
		move(second, boltElement)
		wrecked := slices.Clone(file)
		copy(wrecked[at+boltHeader:], second)
		copy(wrecked[at+boltHeader+boltElement:], first)
		if _, err := verdict(wrecked); err == nil || !strings.Contains(err.Error(), "out of order") {
			t.Errorf("the first two entries of the page at %d are swapped: %v", at, err)
		}
	}
}

// TestEntryUnderAnotherIndex does not match its checksum.
func TestEntryUnderAnotherIndex(t *testing.T) {
	key, value, err := encodeEntry(&raft.Log{Index: 7, Term: 2, Type: raft.LogCommand, Data: []byte("x")})
	must(t, err)
	var l raft.Log
	must(t, decodeEntry(key, value, &l))
	if l.Index != 7 || l.Term != 2 || l.Type != raft.LogCommand || string(l.Data) != "x" {
		t.Errorf("read as %+v", l)
	}
	if err := decodeEntry(indexKey(8), value, &l); err == nil {
		t.Error("read as entry 8")
	}
	if _, _, err := encodeEntry(&raft.Log{Index: 7, Extensions: []byte("x")}); err == nil {
		t.Error("extensions were left out without a word")
	}
}

// TestCutLogSaysSo, also where only pages are gone that nothing points to.
func TestCutLogSaysSo(t *testing.T) {
	_, file := aLog(t)
	bolt, err := readBolt(strings.NewReader(string(file)), int64(len(file)))
	must(t, err)
	whole := int(bolt.pages * bolt.pageSize)
	if _, err := verdict(file[:whole]); err != nil {
		t.Errorf("with all pages that were ever in use: %v", err)
	}
	if _, err := verdict(file[:whole-1]); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("a byte short: %v", err)
	}
}
