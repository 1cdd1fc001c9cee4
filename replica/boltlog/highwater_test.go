package boltlog

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/replica/disk"
	"github.com/stoutlock/stout/replica/wal"
)

// stopped returns a log's directory after it was written to and closed.
func stopped(t *testing.T, write func(f *Log)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := Open(dir, false, true)
	must(t, err)
	must(t, f.StoreLogs(entries(1, 5, 1)))
	must(t, f.Close())
	f, err = Open(dir, true, true)
	must(t, err)
	write(f)
	must(t, f.Close())
	return dir
}

// putBack replaces files of a directory by those of an earlier copy.
func putBack(t *testing.T, before, dir string, files ...string) {
	t.Helper()
	for _, file := range files {
		raw, err := os.ReadFile(filepath.Join(before, file))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, file), raw, 0o600))
	}
}

// TestFilesPutBackAlone: one of the files, or both, are replaced by copies from
// an earlier stop, or from before a vote, a snapshot or an entry; or they lose
// their last write.
func TestFilesPutBackAlone(t *testing.T) {
	for name, write := range map[string]func(f *Log) error{
		"nothing":    func(*Log) error { return nil },
		"an entry":   func(f *Log) error { return f.StoreLogs(entries(6, 6, 1)) },
		"a vote":     func(f *Log) error { return vote(f, 7, "r2") },
		"a snapshot": func(f *Log) error { return f.NoteSnapshot(3) },
		"a deletion": func(f *Log) error { return f.DeleteRange(1, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			var before string
			dir := stopped(t, func(f *Log) {
				before = asLeft(t, f)
				must(t, write(f))
			})
			want := reopened(t, copyOf(t, dir), true)
			for _, files := range [][]string{{FileName}, {wal.FileName}, {FileName, wal.FileName}} {
				put := copyOf(t, dir)
				putBack(t, before, put, files...)
				f, err := Open(put, true, true)
				if err == nil {
					if got := contents(t, f); got != want {
						t.Errorf("%v put back: the log holds\n%s\nwant\n%s", files, got, want)
					}
					must(t, f.Close())
				} else if !strings.Contains(err.Error(), disk.Cure) || !strings.Contains(err.Error(), put) {
					t.Errorf("%v put back: %v", files, err)
				}
			}
		})
	}
}

// TestFilesPutBackBehindASnapshot: after a crash behind a snapshot, both files
// are replaced by copies from before it.
func TestFilesPutBackBehindASnapshot(t *testing.T) {
	for _, with := range []bool{true, false} {
		f, err := Open(t.TempDir(), false, with)
		must(t, err)
		defer f.Close()
		must(t, f.StoreLogs(entries(1, 5, 1)))
		before := asLeft(t, f)
		must(t, f.NoteSnapshot(3))
		put := asLeft(t, f)
		reopened(t, copyOf(t, put), with)
		files := []string{FileName}
		if with {
			files = append(files, wal.FileName)
		}
		putBack(t, before, put, files...)
		if _, err := Open(put, true, with); err == nil || !strings.Contains(err.Error(), "highwater.json records") {
			t.Errorf("with a write-ahead log: %v: it opens, %v", with, err)
		}
	}
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	out := t.TempDir()
	must(t, os.CopyFS(out, os.DirFS(dir)))
	return out
}

// TestLastWriteLostAtAStop: a write that a crash has torn is left out. After a
// regular stop, such a write means that the disk has lost it.
func TestLastWriteLostAtAStop(t *testing.T) {
	dir := stopped(t, func(f *Log) {
		must(t, f.StoreLogs(entries(6, 8, 1)))
	})
	name := filepath.Join(dir, wal.FileName)
	raw, err := os.ReadFile(name)
	must(t, err)
	at, latest := 0, raw[8:24] // the last block of the latest generation and frame
	for n := 0; n < len(raw); n += wal.BlockSize {
		if of := raw[n+8 : n+24]; bytes.Compare(of, latest) >= 0 {
			at, latest = n, of
		}
	}
	clear(raw[at : at+wal.BlockSize])
	must(t, os.WriteFile(name, raw, 0o600))
	if _, err := Open(dir, true, true); err == nil || !strings.Contains(err.Error(), "highwater.json records") {
		t.Errorf("it opens: %v", err)
	}
}

// TestLogsOfEitherKindReachAnywhere: the note does not prevent a change from
// one kind of log to the other, nor a start after a crash.
func TestLogsOfEitherKindReachAnywhere(t *testing.T) {
	dir := t.TempDir()
	at := uint64(0)
	for i, with := range []bool{true, false, true, true, false, false, true} {
		f, err := Open(dir, i > 0, with)
		must(t, err)
		must(t, f.StoreLogs(entries(at+1, at+3, 1)))
		at += 3
		if i%2 == 0 {
			must(t, f.NoteSnapshot(at-2))
			must(t, f.StoreLogs(entries(at+1, at+1, 1)))
			at++
		}
		if i%3 == 0 {
			must(t, f.Close())
			continue
		}
		left := asLeft(t, f)
		must(t, f.Close())
		dir = left
	}
	f, err := Open(dir, true, true)
	must(t, err)
	defer f.Close()
	if got, _ := f.LastIndex(); got != at {
		t.Errorf("the last entry is %d, want %d", got, at)
	}
}

// TestSnapshotsBesideOneAnother: concurrent snapshots are both recorded.
func TestSnapshotsBesideOneAnother(t *testing.T) {
	f := ahead(t)
	must(t, f.StoreLogs(entries(1, 40, 1)))
	done := make(chan error)
	for i := range uint64(8) {
		go func() { done <- f.NoteSnapshot(i + 1) }()
	}
	for range 8 {
		must(t, <-done)
	}
	reopened(t, asLeft(t, f), true)
}
