package snapshots

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/disk"
	"github.com/stoutlock/stout/replica/raftlogger"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watchSyncs calls a function with the name of each file and directory that is
// about to be synced, until the test ends.
func watchSyncs(t *testing.T, see func(name string)) {
	t.Helper()
	wholly, data := disk.SyncFile, disk.SyncData
	t.Cleanup(func() { disk.SyncFile, disk.SyncData = wholly, data })
	disk.SyncFile = func(f *os.File) error { see(f.Name()); return wholly(f) }
	disk.SyncData = func(f *os.File) error { see(f.Name()); return data(f) }
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

// TestSnapshotIsNotedLast: when a snapshot is recorded it can be read, and the
// names of its files were on the disk before it got its own.
func TestSnapshotIsNotedLast(t *testing.T) {
	s, err := Open(t.TempDir(), zerolog.Nop(), nil)
	must(t, err)
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

// TestSnapshotEndsOnce: the library closes each snapshot twice, and cancels one
// that has ended. It is recorded once, and is whole.
func TestSnapshotEndsOnce(t *testing.T) {
	dir, noted := t.TempDir(), 0
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, kept, raftlogger.New(zerolog.Nop()))
	must(t, err)
	store := &Store{SnapshotStore: files, dir: filepath.Join(dir, "snapshots"), done: func(uint64) error { noted++; return nil }}
	_, wire := raft.NewInmemTransport("")
	state := bytes.Repeat([]byte("0123456789"), 20_000)
	for name, test := range map[string]struct {
		ends func(raft.SnapshotSink) error
		want int
	}{
		"closed":   {func(s raft.SnapshotSink) error { return errors.Join(s.Close(), s.Close(), s.Cancel()) }, 1},
		"given up": {func(s raft.SnapshotSink) error { return errors.Join(s.Cancel(), s.Cancel(), s.Close()) }, 0},
	} {
		noted = 0
		sink, err := store.Create(raft.SnapshotVersionMax, 7, 3, raft.Configuration{}, 1, wire)
		must(t, err)
		_, err = sink.Write(state)
		must(t, err)
		must(t, test.ends(sink))
		if noted != test.want {
			t.Errorf("%s: noted %d times, want %d", name, noted, test.want)
		}
		_, r, err := store.Open(sink.ID())
		if (err == nil) != (test.want == 1) {
			t.Fatalf("%s: opened: %v", name, err)
		}
		if err != nil {
			continue
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, state) {
			t.Errorf("%s: %d bytes are read, %v; want %d", name, len(got), err, len(state))
		}
		must(t, r.Close())
	}
}

// TestDamagedMetaData: a snapshot with damaged meta data is not listed, costs no
// other snapshot, and is logged at each start. The library would remove the directory that its ID names;
// without an ID, all snapshots.
func TestDamagedMetaData(t *testing.T) {
	for _, damage := range [][2]string{{`"ID"`, `"IE"`}, {`"Index":7`, `"Index":9`}, {`"ConfigurationIndex":1`, `"ConfigurationIndex":3`}} {
		s, err := Open(t.TempDir(), zerolog.Nop(), func(uint64) error { return nil })
		must(t, err)
		first := snapshotOf(t, s, 7)
		must(t, first.Close())
		name := filepath.Join(s.Dir(), first.ID(), "meta.json")
		raw, err := os.ReadFile(name)
		must(t, err)
		must(t, os.WriteFile(name, bytes.Replace(raw, []byte(damage[0]), []byte(damage[1]), 1), 0o600))
		for index := uint64(7); index < 12; index++ {
			var want []uint64 // latest first
			if index > 7 {
				must(t, snapshotOf(t, s, index).Close())
				want = []uint64{index, index - 1}[:min(2, index-7)]
			}
			metas, err := s.List()
			must(t, err)
			var got []uint64
			for _, m := range metas {
				got = append(got, m.Index)
				_, r, err := s.Open(m.ID)
				must(t, err)
				must(t, r.Close())
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: there are snapshots up to %d, want %d", damage[1], got, want)
			}
		}
		var log bytes.Buffer
		last, err := s.LastSound(zerolog.New(&log))
		must(t, err)
		if lines := strings.Count(log.String(), "\n"); last != 11 || lines != 1 || !strings.Contains(log.String(), first.ID()) || !strings.Contains(log.String(), `"error"`) {
			t.Errorf("%s: the last one is up to %d; logged is %s", damage[1], last, &log)
		}
	}
}
