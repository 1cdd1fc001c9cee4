package overlay

import (
	"errors"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReimported(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.go"), "package a\n\nimport (\n\t\"io/os\"\n\t\"os\"\n)\n")
	write(t, filepath.Join(dir, "b.go"), "package a\n")
	write(t, filepath.Join(dir, "a_test.go"), "package a\n\nimport (\n\t\"os\"\n)\n")
	o, err := Overlay{}.reimported(dir, "os", "example.org/other")
	if err != nil || len(o.files) != 1 {
		t.Fatalf("%d files, %v", len(o.files), err)
	}
	if got := string(o.files[filepath.Join(dir, "a.go")]); !strings.Contains(got, "\t\"io/os\"\n\tos \"example.org/other\"\n") {
		t.Errorf("it is %s", got)
	}
	for _, c := range []struct{ was, file string }{{"net", "a.go"}, {"os", "b.go"}, {"os", "c.go"}} {
		if _, err := (Overlay{}).reimported(dir, c.was, "example.org/other", c.file); err == nil {
			t.Errorf("%s of %s: no error", c.was, c.file)
		}
	}
	if _, err := (Overlay{}).reimported(dir, "net", "example.org/other"); err == nil {
		t.Error("net of all: no error")
	}
}

// noted returns Noted of the sources at root.
func noted(t *testing.T) (root string, o Overlay) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	must(t, err)
	if o, err = Noted(t.Context(), root, Overlay{}); err != nil {
		t.Fatal(err)
	}
	return root, o
}

// TestNoted: the sources look as the overlay expects, and sources of other
// modules are replaced in copies.
func TestNoted(t *testing.T) {
	root, o := noted(t)
	for name := range o.files {
		if !strings.HasPrefix(name, filepath.Join(root, "replica")) && !strings.HasPrefix(name, o.copies[bbolt]) && !strings.HasPrefix(name, o.copies[raft]) {
			t.Errorf("%s is replaced", name)
		}
	}
	dir := t.TempDir()
	name, err := o.modfile(root, dir)
	must(t, err)
	mod, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(mod), "replace "+bbolt+" => "+o.copies[bbolt]) {
		t.Errorf("%v, and go.mod is\n%s", err, mod)
	}
	if again, err := o.modfile(root, dir); again != name || err != nil {
		t.Errorf("%s, and then %s, %v", name, again, err)
	}
}

// TestNothingIsWrittenUnseen: all packages of a replica that use the disk are
// recorded.
func TestNothingIsWrittenUnseen(t *testing.T) {
	root, o := noted(t)
	linux := build.Default
	linux.GOOS = "linux"
	packages := 0
	err := filepath.WalkDir(filepath.Join(root, "replica"), func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		p, err := linux.ImportDir(dir, 0)
		if noGo := (*build.NoGoError)(nil); errors.As(err, &noGo) {
			return nil
		}
		if err != nil {
			return err
		}
		packages++
		for _, name := range []string{"os", "syscall", "io/ioutil", "golang.org/x/sys/unix"} {
			for _, at := range p.ImportPos[name] {
				file, err := filepath.Rel(root, at.Filename)
				if err != nil {
					return err
				}
				noted := name == "os" && o.files[at.Filename] != nil
				if !noted && !slices.Contains(beside, name+" in "+filepath.ToSlash(file)) {
					t.Errorf("%s imports %s: its writes would not be recorded", file, name)
				}
			}
		}
		return nil
	})
	if err != nil || packages < len(stores) {
		t.Errorf("%d packages, %v", packages, err)
	}
}

// beside are imports that write nothing: an error number, a lock.
var beside = []string{
	"syscall in replica/disk/disk.go",
	"syscall in replica/datadir/lock_unix.go",
	"syscall in replica/disk/sync_linux.go", // its call is replaced
}
