package recorded

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stoutlock/stout/test/crash/powerloss"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsSeenIsWhatWasDone: replaying the record gives the same directory,
// also in two parts.
func TestWhatIsSeenIsWhatWasDone(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	disk := powerloss.NewDisk(powerloss.NewTree())
	d, err := Mount(top, disk, func() error { return nil })
	must(t, err)
	work := func(name string) {
		dir := filepath.Join(top, name, "below")
		must(t, MkdirAll(dir, 0o700))
		f, err := Create(filepath.Join(dir, "a"))
		must(t, err)
		_, err = f.WriteString("hello, world")
		must(t, errors.Join(err, f.Sync(), f.Truncate(5), f.Close()))
		must(t, Rename(filepath.Join(top, name), filepath.Join(top, name+"'")))
		f, err = OpenFile(filepath.Join(top, name+"'", "below", "a"), O_RDWR|O_TRUNC, 0)
		must(t, err)
		_, err = f.WriteAt([]byte("there"), 700)
		must(t, errors.Join(err, f.Close()))
		for _, gone := range []string{"b", "c"} {
			f, err := Create(filepath.Join(dir+"'", "..", gone))
			if !os.IsNotExist(err) {
				t.Fatal(f, err)
			}
			must(t, Mkdir(filepath.Join(top, name+gone), 0o700))
			must(t, RemoveAll(filepath.Join(top, name+gone)))
		}
	}
	work("x")
	d.Unmount()
	same(t, top, disk.Seen())
	if _, err := Create(filepath.Join(top, "ghostly")); err == nil {
		t.Error("a name was given after the unmount")
	}
	must(t, d.Remove())
	_, err = Mount(top, disk, func() error { return nil })
	must(t, err)
	n := disk.Len()
	work("y")
	same(t, top, disk.Seen())
	if disk.Len() != 2*n {
		t.Errorf("%d events, want %d", disk.Len(), 2*n)
	}
}

// same compares a directory with a tree.
func same(t *testing.T, dir string, tree *powerloss.Tree) {
	t.Helper()
	made := t.TempDir()
	must(t, tree.Store(made))
	read := func(dir string) map[string]string {
		out := map[string]string{}
		must(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				out[path[len(dir):]] = "/"
				return err
			}
			raw, err := os.ReadFile(path)
			out[path[len(dir):]] = string(raw)
			return err
		}))
		return out
	}
	have, want := read(made), read(dir)
	if len(have) != len(want) {
		t.Errorf("%q, want %q", have, want)
	}
	for name, text := range want {
		if have[name] != text {
			t.Errorf("%s: %q, want %q", name, have[name], text)
		}
	}
}

// TestSyncThatFails: a failed sync makes nothing durable.
func TestSyncThatFails(t *testing.T) {
	top, broken := filepath.Join(t.TempDir(), "top"), errors.New("broken")
	disk := powerloss.NewDisk(powerloss.NewTree())
	disk.Remember()
	_, err := Mount(top, disk, func() error { return broken })
	must(t, err)
	f, err := Create(filepath.Join(top, "a"))
	must(t, err)
	defer f.Close()
	if err := f.Sync(); !errors.Is(err, broken) {
		t.Errorf("the sync returned %v", err)
	}
	if last := disk.Events()[disk.Len()-1]; last.Kind != powerloss.Make {
		t.Errorf("the last event is a %v", last.Kind)
	}
	lost := false
	for seed := range uint64(50) {
		gone := true
		disk.Lose(rand.New(rand.NewPCG(seed, 0))).Walk(func(string, powerloss.ID, bool) { gone = false })
		lost = lost || gone
	}
	if !lost {
		t.Error("a name that was not synced is never lost")
	}
}
