package replica

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/boottime"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/boltlog"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/raftstore"
)

// aDataDir returns the data directory of a cell of one member that has two
// snapshots and a log, and the hash of its state. With enough trailing entries
// the log reaches back to the earlier snapshot.
func aDataDir(t *testing.T, trailing uint64) (Options, [32]byte) {
	t.Helper()
	o := options(t, 1)[0]
	o.HeartbeatTimeout, o.ElectionTimeout, o.TrailingLogs = 20*time.Millisecond, 20*time.Millisecond, trailing
	o.SnapshotInterval = 5 * time.Millisecond
	r := start(t, o)
	_, epoch := lead(t, r)
	for i := range 3 {
		write(t, r, epoch, fmt.Sprintf("s%d-", i), 50)
		before := r.raft.LastIndex()
		until(t, "a snapshot", func() bool {
			metas, err := r.stores.Snapshots.List()
			return err == nil && len(metas) > 0 && metas[0].Index+40 > before
		})
	}
	write(t, r, epoch, "t", 5)
	hash := r.State().Hash()
	stop(t, r)
	o.SnapshotThreshold = 1 << 30 // from here on it only reads
	return o, hash
}

// storesOf opens the stores of a replica that does not run.
func storesOf(t *testing.T, o Options) datadir.Stores {
	t.Helper()
	d, err := datadir.Open(o.DataDir, o.Cell, o.ID)
	must(t, err)
	s, err := d.Open(o.WAL, o.Logger)
	must(t, err)
	return s
}

// copied returns the options of the same replica on a copy of its data
// directory.
func copied(t *testing.T, o Options) Options {
	t.Helper()
	from := o.DataDir
	o.DataDir = t.TempDir()
	must(t, os.CopyFS(o.DataDir, os.DirFS(from)))
	return o
}

// startOn starts a replica on a data directory. It must have the right state, or
// be refused with a message that names the place and the cure.
func startOn(t *testing.T, o Options, want [32]byte) (refused bool) {
	t.Helper()
	r, err := Open(o)
	if err != nil {
		if !strings.Contains(err.Error(), o.DataDir) || !strings.Contains(err.Error(), "docs/operations.md") && !strings.Contains(err.Error(), "belongs to") && !strings.Contains(err.Error(), "format") {
			t.Errorf("the message does not tell the place and the cure: %v", err)
		}
		return true
	}
	defer stop(t, r)
	until(t, "it leads", func() bool { _, ok := r.Leading(); return ok && r.Barrier(t.Context()) == nil })
	if got := r.State().Hash(); got != want {
		t.Errorf("it serves another state: %d sessions at index %d", r.State().SessionCount(), r.State().Index)
	}
	return false
}

// snapshotDirs returns the directories of the snapshots, latest first.
func snapshotDirs(t *testing.T, o Options) []string {
	t.Helper()
	store, err := raft.NewFileSnapshotStore(o.DataDir, 2, io.Discard)
	must(t, err)
	metas, err := store.List()
	must(t, err)
	if len(metas) != 2 {
		t.Fatalf("%d snapshots", len(metas))
	}
	var dirs []string
	for _, m := range metas {
		dirs = append(dirs, filepath.Join(o.DataDir, "snapshots", m.ID))
	}
	return dirs
}

func edit(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, change(raw), 0o600))
}

// TestDamagedSnapshots: an earlier snapshot replaces a damaged one if the log
// reaches back to it; else the replica is refused. It never starts with a part
// of what it had.
func TestDamagedSnapshots(t *testing.T) {
	t.Parallel()
	long, longHash := aDataDir(t, 1000)
	short, shortHash := aDataDir(t, 10)
	cut := func(raw []byte) []byte { return raw[:len(raw)-10] }
	flipped := func(raw []byte) []byte { raw[len(raw)/2] ^= 4; return raw }
	index := func(raw []byte) []byte { // one digit of the index, as another digit
		at := bytes.Index(raw, []byte(`"Index":`)) + len(`"Index":`)
		for raw[at+1] != ',' {
			at++
		}
		raw[at] ^= 1
		return raw
	}
	file := func(name string, change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) { edit(t, filepath.Join(dir, name), change) }
	}
	for name, damage := range map[string]func(*testing.T, string){
		"state cut":     file("state.bin", cut),
		"state flipped": file("state.bin", flipped),
		"state empty":   file("state.bin", func([]byte) []byte { return nil }),
		"state gone":    func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "state.bin"))) },
		"meta cut":      file("meta.json", cut),
		"meta index":    file("meta.json", index),
		"meta of none":  file("meta.json", func([]byte) []byte { return []byte("{}") }),
		"all of it":     func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := copied(t, long)
			damage(t, snapshotDirs(t, o)[0])
			if startOn(t, o, longHash) {
				t.Error("the log reaches back to the earlier snapshot, and the replica is refused")
			}
			o = copied(t, short)
			damage(t, snapshotDirs(t, o)[0])
			if !startOn(t, o, shortHash) {
				t.Error("the latest snapshot is damaged and nothing takes its place; it was started")
			}
			o = copied(t, short)
			dirs := snapshotDirs(t, o)
			damage(t, dirs[1])
			if startOn(t, o, shortHash) {
				t.Error("an earlier snapshot, which nobody needs, is damaged, and the replica is refused")
			}
		})
	}
}

// TestSnapshotsGone: a replica received a snapshot and has stored no entry
// since then. It has no other record of that snapshot.
func TestSnapshotsGone(t *testing.T) {
	t.Parallel()
	o, hash := aDataDir(t, 10)
	s := storesOf(t, o)
	last, _ := s.Logs.LastIndex()
	must(t, s.Logs.DeleteRange(1, last))
	must(t, s.Close())
	must(t, os.RemoveAll(filepath.Join(o.DataDir, "snapshots")))
	if !startOn(t, o, hash) {
		t.Error("it was started as if it had never stored anything")
	}
}

// TestLogGone: with its log a replica has lost its votes and promises; the
// remaining snapshots do not replace them. It must not found the cell again
// under its id, even without snapshots.
func TestLogGone(t *testing.T) {
	t.Parallel()
	o, hash := aDataDir(t, 10)
	must(t, os.Remove(filepath.Join(o.DataDir, boltlog.FileName)))
	if !startOn(t, o, hash) {
		t.Error("it was started without its votes")
	}
	must(t, os.RemoveAll(filepath.Join(o.DataDir, "snapshots")))
	if r, err := Open(o); err == nil {
		stop(t, r)
		t.Error("it was started without its log and snapshots")
	} else if !strings.Contains(err.Error(), "has lost its log") {
		t.Errorf("%q does not say that the log is lost", err)
	}
	if _, err := os.Stat(filepath.Join(o.DataDir, boltlog.FileName)); err == nil {
		t.Error("the refused start made another log")
	}
}

// TestDamagedDataDirectory damages a file of the directory at random, one bit
// or the end, many times.
func TestDamagedDataDirectory(t *testing.T) {
	t.Parallel()
	o, hash := aDataDir(t, 1000)
	random := rand.New(rand.NewPCG(7, 4))
	var files []string
	must(t, filepath.WalkDir(o.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(o.DataDir, path)
			files = append(files, name)
		}
		return err
	}))
	slices.Sort(files)
	refused := map[string]int{}
	for n := range 120 {
		name := files[n%len(files)]
		what := ""
		damaged := copied(t, o)
		edit(t, filepath.Join(damaged.DataDir, name), func(raw []byte) []byte {
			at := random.IntN(len(raw))
			if n%4 == 0 {
				what = fmt.Sprintf("%s is cut to %d bytes", name, at)
				return raw[:at]
			}
			bit := random.IntN(8)
			what = fmt.Sprintf("%s has bit %d of byte %d flipped", name, bit, at)
			raw[at] ^= 1 << bit
			return raw
		})
		if startOn(t, damaged, hash) {
			refused[filepath.Base(name)]++
		}
		if t.Failed() {
			t.Fatal(what)
		}
	}
	t.Logf("refused: %v", refused)
	if refused[boltlog.FileName] == 0 || refused["replica.json"] == 0 {
		t.Errorf("refused: %v; want some for each of the two files that nothing makes up for", refused)
	}
}

// TestDamagedSnapshotStandsForNothing: the meta data of a snapshot have a wrong
// end.
func TestDamagedSnapshotStandsForNothing(t *testing.T) {
	t.Parallel()
	o, _ := aDataDir(t, 1000)
	end := uint64(0)
	edit(t, filepath.Join(snapshotDirs(t, o)[0], "meta.json"), func(raw []byte) []byte {
		var meta map[string]any
		must(t, json.Unmarshal(raw, &meta))
		end = uint64(meta["Index"].(float64)) + 400
		meta["Index"] = end
		raw, err := json.Marshal(meta)
		must(t, err)
		return raw
	})
	s := storesOf(t, o)
	defer s.Close()
	library, err := raftstore.New(s, raftstore.Options{
		Applied: func() uint64 { return 0 },
		Leading: func() bool { return false }, Clock: boottime.Now, Fail: func(err error) { t.Error(err) }, Promises: lease.NewPromises(0),
	})
	must(t, err)
	var got raft.Log
	if err := library.Logs.GetLog(end, &got); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("it stands for entry %d: %+v, %v", end, got, err)
	}
}

// TestDamagedSnapshotKeepsNothingBack: the meta data of a snapshot have a wrong
// end and a wrong configuration. The replica takes further snapshots, and learns
// no members from it.
func TestDamagedSnapshotKeepsNothingBack(t *testing.T) {
	t.Parallel()
	o, _ := aDataDir(t, 1000)
	edit(t, filepath.Join(snapshotDirs(t, o)[0], "meta.json"), func(raw []byte) []byte {
		var meta map[string]any
		must(t, json.Unmarshal(raw, &meta))
		meta["Index"], meta["ConfigurationIndex"] = 9000, 8000
		raw, err := json.Marshal(meta)
		must(t, err)
		return raw
	})
	r := start(t, o)
	_, epoch := lead(t, r)
	write(t, r, epoch, "a", 1)
	last := r.raft.LastIndex()
	if at := r.Info().ConfigIndex; at > last {
		t.Errorf("the log ends at %d, and the configuration is that of entry %d", last, at)
	}
	must(t, r.raft.Snapshot().Error())
}
