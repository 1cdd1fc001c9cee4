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

// damageSeed is fixed, so that each run repeats the findings of the last.
const damageSeed = 7

// aLog returns the file of a log with several levels of pages, free pages and
// votes, before and after its last transaction.
func aLog(t *testing.T) (before, after []byte) {
	t.Helper()
	dir := t.TempDir()
	f, err := Open(dir, false, false)
	must(t, err)
	random := rand.New(rand.NewPCG(damageSeed, 0))
	at := uint64(0)
	store := func(n, size int) {
		var logs []*raft.Log
		for range n {
			at++
			data := make([]byte, random.IntN(size))
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			logs = append(logs, &raft.Log{Index: at, Term: 1 + at/50, Type: raft.LogCommand, Data: data})
		}
		must(t, f.StoreLogs(logs))
	}
	for range 30 {
		store(5, 300)
	}
	must(t, f.SetUint64([]byte("CurrentTerm"), 4))
	must(t, vote(f, 4, "r2"))
	must(t, f.NoteSnapshot(60))
	must(t, f.DeleteRange(1, 40))
	store(1, 9000) // flows over into further pages
	read := func() []byte {
		raw, err := os.ReadFile(f.name)
		must(t, err)
		return raw
	}
	before = read()
	store(3, 300)
	after = read()
	must(t, f.Close())
	return before, after
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holds reads the whole contents of a log file through bbolt.
func holds(t *testing.T, raw []byte) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, FileName), raw, 0o600))
	f, err := Open(dir, true, false)
	must(t, err)
	defer f.Close()
	r := *f.manifest.Load()
	var out strings.Builder
	fmt.Fprintf(&out, "%+v\n", r)
	for i := r.Entries.first(); i <= r.Entries.last(); i++ {
		var l raft.Log
		must(t, f.GetLog(i, &l))
		fmt.Fprintf(&out, "%d %d %v %x\n", l.Index, l.Term, l.Type, l.Data)
	}
	return out.String()
}

// verdict returns the result of checking some bytes as a log file.
func verdict(t *testing.T, raw []byte) (*manifest, error) {
	t.Helper()
	file, err := os.CreateTemp("", "verdict")
	must(t, err)
	defer os.Remove(file.Name())
	_, err = file.Write(raw)
	must(t, errors.Join(err, file.Close()))
	r, _, err := checkLog(file.Name())
	return r, err
}

// TestFlippedBitsInTheLog flips one bit at a time, all over the file. The
// damage is found, or it is in unused space and the contents read as before.
func TestFlippedBitsInTheLog(t *testing.T) {
	_, file := aLog(t)
	sound, err := verdict(t, file)
	must(t, err)
	want := holds(t, file)
	disk, err := os.Create(filepath.Join(t.TempDir(), FileName))
	must(t, err)
	defer disk.Close()
	_, err = disk.Write(file)
	must(t, err)
	random := rand.New(rand.NewPCG(damageSeed, 1))
	const parts = 10 // each goes through the whole file
	tried := testrun.Sample(t, 1, parts)
	found, harmless := 0, 0
	for n, at := 0, 0; at < len(file); n, at = n+1, at+1 {
		step := 80
		if at%os.Getpagesize() <= boltHeader+boltMetaLen { // page headers and meta pages
			step = 3
		}
		at = min(at+random.IntN(step), len(file)-1)
		bit := byte(1) << random.IntN(8)
		if !slices.Contains(tried, n%parts) {
			continue
		}
		file[at] ^= bit
		_, err := disk.WriteAt(file[at:at+1], int64(at))
		must(t, err)
		got, _, err := checkLog(disk.Name())
		switch {
		case err != nil:
			found++
		case !reflect.DeepEqual(got, sound):
			t.Fatalf("bit %#x of byte %d is flipped, and the log reads %+v, want %+v", bit, at, got, sound)
		default:
			if harmless++; harmless%100 != 0 {
				break
			}
			if have := holds(t, file); have != want {
				t.Fatalf("bit %#x of byte %d is flipped, and the log holds\n%s\nwant\n%s", bit, at, have, want)
			}
		}
		file[at] ^= bit
		_, err = disk.WriteAt(file[at:at+1], int64(at))
		must(t, err)
	}
	t.Logf("damage was found %d times, and harmless %d times", found, harmless)
	if found < 500*len(tried)/parts {
		t.Errorf("damage was found %d times only", found)
	}
}

// TestWreckedPagesOfTheLog overwrites whole pages with zeros, garbage, other
// pages and their former contents, and cuts the file.
func TestWreckedPagesOfTheLog(t *testing.T) {
	before, file := aLog(t)
	sound, err := verdict(t, file)
	must(t, err)
	page := os.Getpagesize()
	random := rand.New(rand.NewPCG(damageSeed, 2))
	garbage := make([]byte, page)
	for i := range garbage {
		garbage[i] = byte(random.Uint32())
	}
	found := 0
	judge := func(what string, raw []byte) {
		got, err := verdict(t, raw)
		if err == nil && !reflect.DeepEqual(got, sound) {
			t.Errorf("%s: the log reads %+v, want %+v", what, got, sound)
		}
		if err != nil {
			found++
		}
	}
	for at := 0; at < len(file); at += page {
		wreck := func(what string, with []byte) {
			raw := slices.Clone(file)
			copy(raw[at:at+page], with)
			judge(fmt.Sprintf("page %d: %s", at/page, what), raw)
		}
		wreck("zeros", make([]byte, page))
		wreck("garbage", garbage)
		if at < len(before) && at >= 2*page { // see TestLostLastTransaction for the first two
			wreck("as before the last transaction", before[at:at+page])
		}
		for range 4 {
			other := random.IntN(len(file)/page) * page
			wreck(fmt.Sprintf("page %d", other/page), file[other:other+page])
		}
	}
	for range 300 {
		judge("cut short", file[:random.IntN(len(file))])
	}
	if found < 100 {
		t.Errorf("damage was found %d times only", found)
	}
}

// TestTornLastWrite: only some sectors of the last transaction have reached the
// disk. bbolt syncs the data before it writes the meta page, which fits in a
// sector. So with the old meta page the log is as before, and nothing was
// acknowledged. With the new one the disk has lost what it acknowledged: that
// is found, unless all data is there.
func TestTornLastWrite(t *testing.T) {
	const sector = 512
	before, after := aLog(t)
	old, err := verdict(t, before)
	must(t, err)
	sound, err := verdict(t, after)
	must(t, err)
	var differ []int
	for at := 0; at < len(after); at += sector {
		if at >= len(before) || !bytes.Equal(before[at:at+sector], after[at:at+sector]) {
			differ = append(differ, at)
		}
	}
	metas := 2 * os.Getpagesize()
	const all = 2000
	tried := testrun.Sample(t, 250, all)
	refused := 0
	for _, n := range tried {
		random := rand.New(rand.NewPCG(damageSeed+uint64(n), 3))
		raw := make([]byte, len(after))
		copy(raw, before)
		acknowledged := n%2 == 0
		for _, at := range differ {
			if at < metas && acknowledged || at >= metas && random.IntN(len(differ)) > n%len(differ) {
				copy(raw[at:at+sector], after[at:])
			}
		}
		got, err := verdict(t, raw)
		switch {
		case !acknowledged && (err != nil || !reflect.DeepEqual(got, old)):
			t.Fatalf("torn before the sync: %+v, %v; want %+v", got, err, old)
		case acknowledged && err == nil && !reflect.DeepEqual(got, sound):
			t.Fatalf("torn behind the sync: %+v; want %+v or an error", got, sound)
		case err != nil:
			refused++
		}
	}
	if refused < 100*len(tried)/all {
		t.Errorf("%d torn files were refused", refused)
	}
}

// TestLostLastTransaction: if the newest meta page is damaged, bbolt would use
// the one before it and silently forget the last entries and votes.
func TestLostLastTransaction(t *testing.T) {
	before, after := aLog(t)
	page := os.Getpagesize()
	newest := 0
	if bytes.Equal(before[:page], after[:page]) {
		newest = page
	}
	after[newest+boltHeader+20] ^= 1
	if got, err := verdict(t, after); err == nil || !strings.Contains(err.Error(), "meta page") {
		t.Errorf("it reads %+v, %v", got, err)
	}
}

// TestDamagedLogIsNotOpened: the message names the file and the cure, and the
// file stays unchanged.
func TestDamagedLogIsNotOpened(t *testing.T) {
	_, file := aLog(t)
	page := os.Getpagesize()
	for name, damage := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"cut short": func(raw []byte) []byte { return raw[:3*page+7] },
		"garbage":   func(raw []byte) []byte { return bytes.Repeat([]byte("garbage!"), len(raw)/8) },
		"metas":     func(raw []byte) []byte { clear(raw[:2*page]); return raw },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, FileName), damage(slices.Clone(file)), 0o600))
			wantRefused(t, dir, false, FileName, FileName+" is damaged")
		})
	}
}

// wantRefused checks that a log with a damaged file is not opened, that the
// error names the place and the cure, and that the file stays as it is.
func wantRefused(t *testing.T, dir string, with bool, file string, says ...string) {
	t.Helper()
	before, _ := os.ReadFile(filepath.Join(dir, file))
	f, err := Open(dir, true, with)
	if err == nil {
		_ = f.Close()
		t.Fatal("opened")
	}
	for _, want := range append(says, dir, file, "docs/operations.md") {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if after, _ := os.ReadFile(filepath.Join(dir, file)); !bytes.Equal(before, after) {
		t.Error("the file was changed")
	}
}

// TestCrashWhileFounding: the remains of a log that no replica has started on
// are replaced.
func TestCrashWhileFounding(t *testing.T) {
	_, file := aLog(t)
	for _, n := range []int{0, 100, len(file) / 2} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, FileName), file[:n], 0o600))
		f, err := Open(dir, false, false)
		must(t, err)
		if r := f.manifest.Load(); r.Entries != nil {
			t.Errorf("of %d bytes: %+v", n, r)
		}
		must(t, f.Close())
	}
}
