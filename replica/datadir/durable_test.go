package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/disk"
)

// watchSyncs calls a function with the name of each file and directory that is
// about to be synced, until the test ends.
func watchSyncs(t *testing.T, see func(name string)) {
	t.Helper()
	wholly, data := disk.SyncFile, disk.SyncData
	t.Cleanup(func() { disk.SyncFile, disk.SyncData = wholly, data })
	disk.SyncFile = func(f *os.File) error { see(f.Name()); return wholly(f) }
	disk.SyncData = func(f *os.File) error { see(f.Name()); return data(f) }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func storesIn(t *testing.T, dir string) Stores {
	t.Helper()
	d, err := Open(dir, "test", "r1")
	must(t, err)
	s, err := d.Open(true, zerolog.Nop())
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestNewDirectoriesAreOnTheDisk: each name is synced, below the directory that
// existed before. That includes names that a killed process has left, which
// look as if they had existed before.
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
		p := storesIn(t, dir)
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

// TestUnfinishedSnapshotsGo: the next start removes them.
func TestUnfinishedSnapshotsGo(t *testing.T) {
	dir := t.TempDir()
	p := storesIn(t, dir)
	must(t, snapshotOf(t, p.Snapshots, 7).Close())
	snapshotOf(t, p.Snapshots, 9)
	must(t, p.Close())
	p = storesIn(t, dir)
	left, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	must(t, err)
	if metas, err := p.Snapshots.List(); err != nil || len(metas) != 1 || len(left) != 1 {
		t.Errorf("%d snapshots in %v, %v", len(metas), left, err)
	}
}

// TestNobodyElseReads: other users cannot read a replica's files, for any umask
// and any maker of the directory.
func TestNobodyElseReads(t *testing.T) {
	defer umask(umask(0))
	dir := filepath.Join(t.TempDir(), "by-hand")
	must(t, os.Mkdir(dir, 0o755))
	p := storesIn(t, dir)
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
	must(t, errors.Join(p.Save(p.Identity), p.Quarantine("for the test")))
	sink := snapshotOf(t, p.Snapshots, 7)
	check("within a snapshot")
	must(t, sink.Close())
	check("behind it")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory that somebody else has made has mode %v, %v", info.Mode(), err)
	}
}
