package backup

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestSavedWholeOrNotAtAll: a failed save leaves the directory unchanged.
func TestSavedWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "cell.backup")
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, _ = io.WriteString(w, s)
			return err
		}
	}
	holds := func(want string) {
		t.Helper()
		raw, err := os.ReadFile(name)
		entries, _ := os.ReadDir(dir)
		if want == "" && (!errors.Is(err, fs.ErrNotExist) || len(entries) > 0) || want != "" && (string(raw) != want || len(entries) != 1) {
			t.Errorf("there is %q (%v) among %v, want %q", raw, err, entries, want)
		}
	}
	broken := errors.New("broken")
	if err := Save(name, false, text("half", broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
	holds("")
	if err := Save(name, false, text("one", nil)); err != nil {
		t.Error(err)
	}
	holds("one")
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := Save(name, false, text("two", nil)); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := Save(name, true, text("half", broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
	holds("one")
	if err := Save(name, true, text("two", nil)); err != nil {
		t.Error(err)
	}
	holds("two")
	if err := Save(dir, true, text("x", nil)); err == nil {
		t.Error("a directory was replaced")
	}
	if err := Save(filepath.Join(dir, "none", "x"), true, text("x", nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestTakenMeanwhile: a file that appeared while the backup was written is kept.
func TestTakenMeanwhile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "cell.backup")
	err := Save(name, false, func(io.Writer) error { return os.WriteFile(name, []byte("mine"), 0o600) })
	if raw, _ := os.ReadFile(name); !errors.Is(err, fs.ErrExist) || string(raw) != "mine" {
		t.Errorf("%q, %v", raw, err)
	}
}
