package readfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		name    string
		most    int64
		refused string // part of the error, or ""
	}{
		{file, 7, ""}, {link, 100, ""},
		{file, 6, "is larger than 6 bytes"},
		{dir, 100, "is a directory and not a regular file"},
		{filepath.Join(dir, "none"), 100, "no such file"},
	} {
		var r Reader
		got, err := r.Read(c.name, c.most)
		if (err != nil) != (c.refused != "") || err == nil && string(got) != "content" || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s of at most %d bytes: %q, %v; want %q", c.name, c.most, got, err, c.refused)
		}
	}
}

// TestReadsThatHang: a read that hangs times out and is retried. Its late result is
// ignored, and a read that never ends does not prevent later reads.
func TestReadsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var reads atomic.Int32
		r := Reader{read: func(string, int64) ([]byte, error) {
			reads.Add(1)
			<-stuck
			return []byte("late"), nil
		}}
		try := func() (time.Duration, error) {
			began := time.Now()
			got, err := r.Read("file", 1)
			if got != nil {
				t.Errorf("a read that hangs returns %q", got)
			}
			return time.Since(began), err
		}
		for i := range 3 * freely {
			took, err := try()
			if err == nil || !strings.Contains(err.Error(), "does not answer") || took > Patience {
				t.Errorf("read %d: %v after %v", i, err, took)
			}
		}
		if got := reads.Load(); got != freely {
			t.Errorf("%d reads hang at once", got)
		}
		time.Sleep(turnEvery)
		if _, err := try(); err == nil || reads.Load() != freely+1 {
			t.Errorf("a minute later: %v, %d reads", err, reads.Load())
		}
		close(stuck)
		synctest.Wait()
		want := errors.New("present")
		r.read = func(string, int64) ([]byte, error) { return nil, want }
		if _, err := r.Read("file", 1); err != want {
			t.Errorf("after the reads have ended: %v", err)
		}
	})
}
