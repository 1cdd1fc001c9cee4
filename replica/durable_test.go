package replica

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/cell"
)

// watchSyncs calls a function with the name of each file and directory that is about
// to be synced, until the test is over.
func watchSyncs(t *testing.T, see func(name string)) {
	t.Helper()
	wholly, data := syncFile, syncData
	t.Cleanup(func() { syncFile, syncData = wholly, data })
	syncFile = func(f *os.File) error { see(f.Name()); return wholly(f) }
	syncData = func(f *os.File) error { see(f.Name()); return data(f) }
}

func storesIn(t *testing.T, dir string) (Parts, Options) {
	t.Helper()
	o := Options{Cell: "test", ID: "r1", DataDir: dir, Members: []cell.Member{{ID: "r1"}}, WAL: true, Logger: zerolog.Nop()}
	d, err := Claim(&o)
	must(t, err)
	p, err := d.Open()
	must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p, o
}

// TestPutInPlace: a file is on the disk before it gets its name, and the name is
// before the call returns.
func TestPutInPlace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, []byte("old"), 0o600))
	var seen []string
	watchSyncs(t, func(synced string) {
		in, _ := os.ReadFile(name)
		aside, _ := os.ReadFile(name + ".new")
		seen = append(seen, fmt.Sprintf("%s, with %q and %q", filepath.Base(synced), in, aside))
	})
	must(t, writeDurably(name, []byte("new")))
	want := []string{`file.new, with "old" and "new"`, filepath.Base(filepath.Dir(name)) + `, with "new" and ""`}
	if !slices.Equal(seen, want) {
		t.Errorf("synced: %q, want %q", seen, want)
	}
}

// TestAcknowledgedEntriesAreSynced in the write-ahead log, all of them.
func TestAcknowledgedEntriesAreSynced(t *testing.T) {
	f := ahead(t)
	name := filepath.Join(filepath.Dir(f.name), walFileName)
	read := func() string {
		raw, err := os.ReadFile(name)
		must(t, err)
		return string(raw)
	}
	synced := ""
	watchSyncs(t, func(of string) {
		if of == name {
			synced = read()
		}
	})
	for i := uint64(1); i < 20; i += 3 {
		must(t, f.StoreLogs(entries(i, i+2, 1)))
		if read() != synced {
			t.Fatalf("entries %d to %d are acknowledged before they are synced", i, i+2)
		}
	}
}

// TestNewDirectoriesAreOnTheDisk: each name, from the one that was there before on.
// So it is with what a killed process has left, which looks as if it had been there
// before.
func TestNewDirectoriesAreOnTheDisk(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "data")
	for _, start := range []string{"first", "second"} {
		var names []string // in directories when they were synced
		watchSyncs(t, func(synced string) {
			found, err := os.ReadDir(synced)
			if err != nil {
				return // a file
			}
			for _, e := range found {
				names = append(names, filepath.Join(synced, e.Name()))
			}
		})
		p, _ := storesIn(t, dir)
		must(t, p.Close())
		want := []string{dir, filepath.Dir(dir), filepath.Join(top, "a"), filepath.Join(dir, "raft.db"),
			filepath.Join(dir, "raft.wal"), filepath.Join(dir, "replica.json"), filepath.Join(dir, "snapshots")}
		if left := filepath.Join(dir, "snapshots", "1-7-1"); start == "first" {
			must(t, os.Mkdir(left, 0o700))
		} else {
			want = append(want, left)
		}
		for _, name := range want {
			if !slices.Contains(names, name) {
				t.Errorf("%s start: the name %s is not synced", start, name)
			}
		}
	}
}

// snapshotOf writes a snapshot.
func snapshotOf(t *testing.T, s raft.SnapshotStore, index uint64) raft.SnapshotSink {
	t.Helper()
	sink, err := s.Create(1, index, 1, raft.Configuration{}, 1, nil)
	must(t, err)
	_, err = sink.Write([]byte("a state"))
	must(t, err)
	return sink
}

// TestSnapshotIsNotedLast: when it is noted it can be read; and the names of its files
// were on the disk before it got its own.
func TestSnapshotIsNotedLast(t *testing.T) {
	p, _ := storesIn(t, t.TempDir())
	s := p.Snapshots.(*snapshotStore)
	var inside []string
	watchSyncs(t, func(synced string) {
		if strings.HasSuffix(synced, ".tmp") {
			all, err := filepath.Glob(filepath.Join(synced, "*"))
			must(t, err)
			inside = append(inside, all...)
		}
	})
	noted := uint64(0)
	s.done = func(index uint64) error {
		noted = index
		metas, err := s.List()
		must(t, err)
		if len(metas) != 1 || metas[0].Index != index {
			t.Fatalf("noted while there are %d snapshots", len(metas))
		}
		_, r, err := s.Open(metas[0].ID)
		must(t, err)
		return r.Close()
	}
	sink := snapshotOf(t, s, 7)
	if noted != 0 {
		t.Error("noted while it is written")
	}
	must(t, sink.Close())
	if noted != 7 {
		t.Errorf("up to %d is noted", noted)
	}
	var files []string
	for _, name := range inside {
		files = append(files, filepath.Base(name))
	}
	if want := []string{"meta.json", "state.bin"}; !slices.Equal(files, want) {
		t.Errorf("the names %q are synced in it, want %q", files, want)
	}
}

// TestUnfinishedSnapshotsGo at the next start.
func TestUnfinishedSnapshotsGo(t *testing.T) {
	dir := t.TempDir()
	p, _ := storesIn(t, dir)
	must(t, snapshotOf(t, p.Snapshots, 7).Close())
	snapshotOf(t, p.Snapshots, 9)
	must(t, p.Close())
	p, _ = storesIn(t, dir)
	left, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	must(t, err)
	if metas, err := p.Snapshots.List(); err != nil || len(metas) != 1 || len(left) != 1 {
		t.Errorf("%d snapshots in %v, %v", len(metas), left, err)
	}
}

// TestNobodyElseReads what a replica makes, whatever the umask and whoever made the
// directory.
func TestNobodyElseReads(t *testing.T) {
	defer umask(umask(0))
	dir := filepath.Join(t.TempDir(), "by-hand")
	must(t, os.Mkdir(dir, 0o755))
	p, _ := storesIn(t, dir)
	check := func(when string) {
		t.Helper()
		must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			info, err := e.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %s has mode %v", when, path, info.Mode())
			}
			return err
		}))
	}
	check("at the start")
	must(t, errors.Join(p.Save(p.Identity), p.Condemn("for the test")))
	sink := snapshotOf(t, p.Snapshots, 7)
	check("within a snapshot")
	must(t, sink.Close())
	check("behind it")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory that somebody else has made has mode %v, %v", info.Mode(), err)
	}
}
