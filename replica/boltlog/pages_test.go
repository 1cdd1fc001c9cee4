package boltlog

import (
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/disk"
)

// inUse returns the pages of a kind that the latest transaction of a file uses.
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
		if _, err := verdict(t, wrecked); err != nil {
			offsets = append(offsets, at)
		}
	}
	if len(offsets) == 0 {
		t.Fatalf("no page with flags %#x is in use", flags)
	}
	return offsets
}

// TestMisleadingBranches: a branch with keys that differ from its children's
// sends searches to the wrong child. All entries are there, and bbolt does not
// find them.
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
				if _, err := verdict(t, wrecked); err != nil {
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

// TestSwappedEntries: each entry matches its checksum, and a binary search
// misses them.
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
		if _, err := verdict(t, wrecked); err == nil || !strings.Contains(err.Error(), "out of order") {
			t.Errorf("the first two entries of the page at %d are swapped: %v", at, err)
		}
	}
}

// TestEntriesFlaggedAsBuckets: bbolt does not find them, and does not delete
// left-over ones.
func TestEntriesFlaggedAsBuckets(t *testing.T) {
	var found spans
	if err := found.note(binary.BigEndian.AppendUint64(nil, 7), nil, true); err == nil {
		t.Errorf("a bucket is taken for an entry: %v", found)
	}
	_, file := aLog(t)
	for _, at := range inUse(t, file, boltLeaf) {
		for i := range parseHeader(file[at:]).count {
			wrecked := slices.Clone(file)
			wrecked[at+boltHeader+i*boltElement] ^= 1
			if _, err := verdict(t, wrecked); err == nil {
				t.Fatalf("the flag of element %d of the page at %d is flipped, and nobody cares", i, at)
			}
		}
	}
}

// TestEntryUnderAnotherIndex: the entry does not match its checksum, nor does
// one with other extensions. FuzzEntry tries the other fields.
func TestEntryUnderAnotherIndex(t *testing.T) {
	given := raft.Log{Index: 7, Term: 2, Type: raft.LogCommand, Data: []byte("x"), Extensions: []byte("y"), AppendedAt: time.Unix(8, 9).UTC()}
	kept := *sealed(&given)
	if string(given.Extensions) != "y" {
		t.Error("the caller's entry was changed")
	}
	read := kept
	must(t, unseal(7, &read))
	if !reflect.DeepEqual(read, given) {
		t.Errorf("read as %+v, want %+v", read, given)
	}
	for name, change := range map[string]func(*raft.Log){
		"index":      func(l *raft.Log) { l.Index = 8 },
		"extensions": func(l *raft.Log) { l.Extensions = l.Extensions[:sumSize] },
		"bounds":     func(l *raft.Log) { l.Extensions, l.Data = append(slices.Clone(l.Extensions), 'x'), nil },
		"no sum":     func(l *raft.Log) { l.Extensions = nil },
	} {
		read := kept
		change(&read)
		if err := unseal(read.Index, &read); !errors.Is(err, disk.ErrDamaged) {
			t.Errorf("with another %s: %v", name, err)
		}
	}
}

// TestCutLogSaysSo: a cut is reported even if only unused pages are gone.
func TestCutLogSaysSo(t *testing.T) {
	_, file := aLog(t)
	bolt, err := readBolt(strings.NewReader(string(file)), int64(len(file)))
	must(t, err)
	whole := int(bolt.pages * bolt.pageSize)
	if _, err := verdict(t, file[:whole]); err != nil {
		t.Errorf("with all pages that were ever in use: %v", err)
	}
	if _, err := verdict(t, file[:whole-1]); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("a byte short: %v", err)
	}
}
