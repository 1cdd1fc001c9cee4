package replica

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stopped is a log's directory after it was written to and closed.
func stopped(t *testing.T, write func(f *logFile)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := openLog(dir, false, true)
	must(t, err)
	must(t, f.StoreLogs(entries(1, 5, 1)))
	must(t, f.Close())
	f, err = openLog(dir, true, true)
	must(t, err)
	write(f)
	must(t, f.Close())
	return dir
}

// TestFilesPutBackAlone: each of the files, or both, as they were at an earlier stop
// or before a vote, a snapshot, an entry; and without their last write.
func TestFilesPutBackAlone(t *testing.T) {
	for name, write := range map[string]func(f *logFile) error{
		"nothing":    func(*logFile) error { return nil },
		"an entry":   func(f *logFile) error { return f.StoreLogs(entries(6, 6, 1)) },
		"a vote":     func(f *logFile) error { return vote(f, 7, "r2") },
		"a snapshot": func(f *logFile) error { return f.noteSnapshot(3) },
		"a deletion": func(f *logFile) error { return f.DeleteRange(1, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			var before string
			dir := stopped(t, func(f *logFile) {
				before = asLeft(t, f)
				must(t, write(f))
			})
			want := reopened(t, copyOf(t, dir), true)
			for _, files := range [][]string{{logFileName}, {walFileName}, {logFileName, walFileName}} {
				put := copyOf(t, dir)
				for _, file := range files {
					raw, err := os.ReadFile(filepath.Join(before, file))
					must(t, err)
					must(t, os.WriteFile(filepath.Join(put, file), raw, 0o600))
				}
				f, err := openLog(put, true, true)
				if err == nil {
					if got := contents(t, f); got != want {
						t.Errorf("%v put back: the log holds\n%s\nwant\n%s", files, got, want)
					}
					must(t, f.Close())
				} else if !strings.Contains(err.Error(), cure) || !strings.Contains(err.Error(), put) {
					t.Errorf("%v put back: %v", files, err)
				}
			}
		})
	}
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	out := t.TempDir()
	must(t, os.CopyFS(out, os.DirFS(dir)))
	return out
}

// TestLastWriteLostAtAStop: a write that a crash has torn is left out; after a stop in
// good order it is one that the disk has lost.
func TestLastWriteLostAtAStop(t *testing.T) {
	at := 0
	dir := stopped(t, func(f *logFile) {
		must(t, f.StoreLogs(entries(6, 8, 1)))
		at = (walArea(f.wal.generation) + f.wal.next - 1) * walBlock
	})
	name := filepath.Join(dir, walFileName)
	raw, err := os.ReadFile(name)
	must(t, err)
	clear(raw[at : at+walBlock])
	must(t, os.WriteFile(name, raw, 0o600))
	if _, err := openLog(dir, true, true); err == nil || !strings.Contains(err.Error(), "reached.json tells") {
		t.Errorf("it opens: %v", err)
	}
}

// TestLogsOfEitherKindReachAnywhere: the note does not stand in the way of going from
// one kind of log to the other, nor of a crash.
func TestLogsOfEitherKindReachAnywhere(t *testing.T) {
	dir := t.TempDir()
	at := uint64(0)
	for i, with := range []bool{true, false, true, true, false, false, true} {
		f, err := openLog(dir, i > 0, with)
		must(t, err)
		must(t, f.StoreLogs(entries(at+1, at+3, 1)))
		at += 3
		if i%2 == 0 {
			must(t, f.noteSnapshot(at-2))
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
	f, err := openLog(dir, true, true)
	must(t, err)
	defer f.Close()
	if got, _ := f.LastIndex(); got != at {
		t.Errorf("the last entry is %d, want %d", got, at)
	}
}

// TestSnapshotsBesideOneAnother: each is noted.
func TestSnapshotsBesideOneAnother(t *testing.T) {
	f := ahead(t)
	must(t, f.StoreLogs(entries(1, 40, 1)))
	done := make(chan error)
	for i := range uint64(8) {
		go func() { done <- f.noteSnapshot(i + 1) }()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	reopened(t, asLeft(t, f), true)
}
