package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/disk"
	"github.com/stoutlock/stout/replica/state"
)

// saved returns a state with a session that holds a lock.
func saved(t *testing.T) Saved {
	t.Helper()
	s := state.New()
	for i, op := range []state.Operation{
		&state.OpenOffice{Term: 1, Master: "r1"},
		&state.OpenSession{Session: "s1", TTLMS: 1000},
		&state.Acquire{Session: "s1", Path: "/a", Mode: state.Exclusive},
	} {
		s, _ = s.Apply(uint64(i+2), 1, state.Batch{Epoch: min(uint64(i), 1), LeaseMS: 1000, Commands: []state.Command{{Operation: op}}})
	}
	var raw bytes.Buffer
	must(t, s.Snapshot(&raw))
	out, err := ReadSaved(&raw)
	must(t, err)
	if out.LastToken() != 1 {
		t.Fatalf("%+v", out.state)
	}
	return out
}

// TestFoundedFromABackup: a cell of one member with a new id leads itself and
// begins with the backup's state. Two cells from one backup have different ids.
func TestFoundedFromABackup(t *testing.T) {
	t.Parallel()
	from, ids := saved(t), map[string]bool{}
	for _, wal := range []bool{true, false} {
		o := options(t, 1)[0]
		o.WAL = wal
		o.DataDir = filepath.Join(o.DataDir, "new")
		id, err := from.Found(o, 5000)
		must(t, err)
		ids[id] = true
		if _, err := from.Found(o, 6000); err == nil || !strings.Contains(err.Error(), "is not empty") {
			t.Errorf("founded again in the same directory: %v", err)
		}
		t.Run(fmt.Sprint(wal), func(t *testing.T) {
			t.Parallel()
			for _, first := range []bool{true, false} { // starts
				r := start(t, o)
				if s := r.State(); first {
					if l, held := s.Lock("/a"); s.SessionCount() != 0 || !held || l.DelayMS != state.DelayOfNone || s.LastToken() != 5000 || s.Revision != 5000 {
						t.Errorf("%d sessions, lock %+v, token %d, revision %d", s.SessionCount(), l, s.LastToken(), s.Revision)
					}
					if !s.Office.Open || s.Office.LeaseMS != state.MaxLeaseMS {
						t.Errorf("the first master waits for %+v", s.Office)
					}
				}
				lead(t, r)
				if r.CellID() != id || len(r.Members()) != 1 {
					t.Errorf("cell %s with %v, want %s", r.CellID(), r.Members(), id)
				}
				must(t, r.Close())
			}
		})
	}
	if len(ids) != 2 {
		t.Errorf("ids %v", ids)
	}
}

// TestNothingWrittenWhereRefused: a floor without room above it, a directory
// with other files.
func TestNothingWrittenWhereRefused(t *testing.T) {
	t.Parallel()
	o := options(t, 1)[0]
	if _, err := saved(t).Found(o, 1<<53); err == nil || !strings.Contains(err.Error(), "53 bits") {
		t.Error(err)
	}
	if found, _ := os.ReadDir(o.DataDir); len(found) > 0 {
		t.Errorf("written: %v", found)
	}
	must(t, os.WriteFile(filepath.Join(o.DataDir, "holiday.jpg"), nil, 0o600))
	if _, err := saved(t).Found(o, 1); err == nil || !strings.Contains(err.Error(), "holiday.jpg") {
		t.Error(err)
	}
	if found, _ := os.ReadDir(o.DataDir); len(found) != 1 {
		t.Errorf("written: %v", found)
	}
	raw := []byte("stout-state\x03 and then nothing")
	if _, err := ReadSaved(bytes.NewReader(raw)); err == nil {
		t.Error("a damaged state was read")
	}
}

// TestCrashWhileFounding: after a crash at any sync the directory is empty, or
// refused with advice, or belongs to the new cell.
func TestCrashWhileFounding(t *testing.T) { // not parallel: it watches the disk of the process
	o := options(t, 1)[0]
	top := t.TempDir()
	o.DataDir = filepath.Join(top, "data")
	var left []string
	keep := func() {
		name := filepath.Join(t.TempDir(), "left")
		if err := os.CopyFS(name, os.DirFS(o.DataDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		left = append(left, name)
	}
	stopWatching := beforeSyncs(t, keep)
	id, err := saved(t).Found(o, 5000)
	must(t, err)
	stopWatching()
	keep()
	empty, refused, whole := 0, 0, 0
	for i, dir := range left {
		at := o
		at.DataDir = dir
		if datadir.Empty(dir) == nil {
			empty++
			continue
		}
		d, err := datadir.Lock(dir, o.Cell, o.ID)
		if err != nil {
			refused++
			if !strings.Contains(err.Error(), "stoutd restore or stoutd recover was interrupted while it founded a cell here; empty the directory, and run it again") {
				t.Errorf("left by sync %d of %d: %v", i, len(left), err)
			}
			continue
		}
		whole++
		if who := d.Identity(); who.CellID != id || !who.Founded {
			t.Errorf("left by sync %d of %d: %+v", i, len(left), who)
		}
		must(t, d.Close())
	}
	if empty == 0 || refused == 0 || whole == 0 {
		t.Errorf("%d were empty, %d refused, %d whole", empty, refused, whole)
	}
}

// beforeSyncs calls a function before each sync of a file, until stop is called or
// the test ends.
func beforeSyncs(t *testing.T, do func()) (stop func()) {
	wholly, data := disk.SyncFile, disk.SyncData
	stop = sync.OnceFunc(func() { disk.SyncFile, disk.SyncData = wholly, data })
	t.Cleanup(stop)
	disk.SyncFile = func(f *os.File) error { do(); return wholly(f) }
	disk.SyncData = func(f *os.File) error { do(); return data(f) }
	return stop
}

// TestFloorOfTheClock is above what a cell can have given, and has room for
// decades.
func TestFloorOfTheClock(t *testing.T) {
	t.Parallel()
	at := func(year int) time.Time { return time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC) }
	if a, b := RestoreFloor(at(2026)), RestoreFloor(at(2026).Add(time.Millisecond)); b-a != 4096 || a == 0 {
		t.Errorf("%d, %d", a, b)
	}
	if n := RestoreFloor(at(2092)); n >= 1<<53 {
		t.Errorf("%d in 2092", n)
	}
	if n := RestoreFloor(at(2001)); n != 0 {
		t.Errorf("%d in 2001", n)
	}
}

// TestFoundedFromAStoppedReplica: a cell of one member continues from
// everything that the log has, with and without a snapshot before it. The old
// directory is retired.
func TestFoundedFromAStoppedReplica(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{3, 150} {
		t.Run(strconv.Itoa(entries), func(t *testing.T) {
			t.Parallel()
			o := options(t, 1)[0]
			r := start(t, o)
			_, epoch := lead(t, r)
			for i := range entries {
				op := &state.Transaction{Then: []state.Step{&state.Write{Path: "/f", Content: []byte{byte(i)}, Sum: make([]byte, 32)}}}
				out, err := r.Submit(state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{{Time: 7, Operation: op}}})()
				if err != nil || !out.Accepted {
					t.Fatalf("%+v, %v", out, err)
				}
			}
			want := r.State()
			if _, err := OpenStopped(o); err == nil || !strings.Contains(err.Error(), "in use") {
				t.Errorf("while it runs: %v", err)
			}
			must(t, r.Close())
			old, err := OpenStopped(o)
			must(t, err)
			if !old.state.Equal(want) || old.CellID != r.CellID() || old.Last < want.Index {
				t.Errorf("%d entries: it has revision %d up to entry %d, want %d up to %d", entries, old.Revision(), old.Last, want.Revision, want.Index)
			}
			next := o
			next.DataDir = filepath.Join(t.TempDir(), "new")
			id, err := old.Move(next, 5000)
			must(t, err)
			must(t, old.Close())
			if _, err := Prepare(o); err == nil || !strings.Contains(err.Error(), "the cell was recovered from it, as the cell with id "+id) {
				t.Errorf("the old directory: %v", err)
			}
			r = start(t, next)
			lead(t, r)
			if f, ok := r.State().File("/f"); r.CellID() != id || !ok || f.Content[0] != byte(entries-1) {
				t.Errorf("cell %s has %+v", r.CellID(), f)
			}
			must(t, r.Close())
		})
	}
	o := options(t, 1)[0]
	if _, err := OpenStopped(o); err == nil || !strings.Contains(err.Error(), "nothing to recover") {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestStoppedWithinAnInstall: a crash came between the end of a snapshot from a
// master and the deletion of the log, which differs. No entry of that log counts.
func TestStoppedWithinAnInstall(t *testing.T) {
	t.Parallel()
	o := options(t, 1)[0]
	r := start(t, o)
	_, epoch := lead(t, r)
	write(t, r, epoch, "s", 3)
	want, term := r.State(), r.term()
	must(t, r.Close())

	d, err := datadir.Lock(o.DataDir, o.Cell, o.ID)
	must(t, err)
	stores, err := d.Open(o.WAL, o.Logger)
	must(t, err)
	last, err := stores.Logs.LastIndex()
	must(t, err)
	for i := range uint64(4) { // never committed
		batch := state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{{Operation: &state.OpenSession{Session: fmt.Sprint("lost", i), TTLMS: 1000}}}}
		data, err := batch.Encode()
		must(t, err)
		must(t, stores.Logs.StoreLog(&raft.Log{Index: last + 1 + i, Term: term, Type: raft.LogCommand, Data: data}))
	}
	want, _ = want.Apply(last+2, term+1, state.Batch{Commands: []state.Command{{Operation: &state.OpenOffice{Term: term + 1, Master: "r2"}}}})
	sink, err := stores.Snapshots.Create(raft.SnapshotVersionMax, want.Index, term+1, raft.Configuration{}, 1, addresses{})
	must(t, err)
	must(t, want.Snapshot(sink))
	must(t, errors.Join(sink.Close(), stores.Close(), d.Close()))

	old, err := OpenStopped(o)
	must(t, err)
	if !old.state.Equal(want) || old.Last != want.Index {
		t.Errorf("it has revision %d up to entry %d, want %d up to %d", old.Revision(), old.Last, want.Revision, want.Index)
	}
	must(t, old.Close())
}

// opens reports whether a replica could start with a directory and serve as a
// cell.
func opens(t *testing.T, o Options) bool {
	t.Helper()
	if datadir.Empty(o.DataDir) == nil {
		return false
	}
	d, err := datadir.Lock(o.DataDir, o.Cell, o.ID)
	if err != nil {
		return false
	}
	defer func() { must(t, d.Close()) }()
	return d.Identity().Founded
}

// TestRecoveryThatIsKilled: a recovery is killed at any point between its first
// write and its last. At most one of the two directories can be opened, and the
// next run finishes the recovery or reports what to do.
func TestRecoveryThatIsKilled(t *testing.T) {
	top := t.TempDir()
	o := options(t, 1)[0]
	o.DataDir = filepath.Join(top, "old")
	r := start(t, o)
	_, epoch := lead(t, r)
	write(t, r, epoch, "s", 3)
	must(t, r.Close())
	next := o
	next.DataDir = filepath.Join(top, "new")

	var left []string
	keep := func() {
		left = append(left, filepath.Join(t.TempDir(), "left"))
		must(t, os.CopyFS(left[len(left)-1], os.DirFS(top)))
	}
	old, err := OpenStopped(o)
	must(t, err)
	keep()
	stopWatching := beforeSyncs(t, keep)
	_, err = old.Move(next, 5000)
	must(t, err)
	stopWatching()
	keep()
	must(t, old.Close())
	t.Parallel() // beside others from here on

	untouched, begun, founded, over := 0, 0, 0, 0
	for i, files := range left {
		must(t, os.RemoveAll(top))
		must(t, os.CopyFS(top, os.DirFS(files)))
		if opens(t, o) && opens(t, next) {
			t.Errorf("killed in sync %d of %d: both directories can be opened", i, len(left))
		}
		if opens(t, o) {
			untouched++
		}
		for again := 0; !opens(t, next); again++ {
			old, err := OpenStopped(o)
			if done := new(AlreadyRecovered); errors.As(err, &done) {
				t.Errorf("killed in sync %d of %d: %v", i, len(left), err)
				break
			}
			must(t, err)
			_, err = old.Move(next, 5000)
			must(t, old.Close())
			if err == nil {
				continue
			}
			begun++
			if again > 0 || !strings.Contains(err.Error(), "empty the directory, and run it again") {
				t.Fatalf("killed in sync %d of %d: %v", i, len(left), err)
			}
			must(t, os.RemoveAll(next.DataDir))
		}
		if opens(t, o) || !opens(t, next) {
			t.Errorf("killed in sync %d of %d: in the end the old one can be opened: %v, the new one: %v", i, len(left), opens(t, o), opens(t, next))
		}
		_, err := OpenStopped(o)
		if done := new(AlreadyRecovered); errors.As(err, &done) && done.Into == next.DataDir {
			founded++
			_, err = OpenStopped(o)
		}
		if err == nil || !strings.Contains(err.Error(), "the cell was recovered from it") {
			t.Errorf("killed in sync %d of %d: the next run says %v", i, len(left), err)
		}
		over++
	}
	if untouched == 0 || begun == 0 || founded == 0 || over != len(left) {
		t.Errorf("%d were untouched, %d begun, %d founded, %d of %d came to an end", untouched, begun, founded, over, len(left))
	}
}
