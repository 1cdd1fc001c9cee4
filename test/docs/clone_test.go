package docs

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

// scratch is removed when all tests have run.
var scratch string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "curl" {
		curl(os.Args[1:])
	}
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "stout-docs-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		return m.Run()
	}())
}

// clone is a copy of the sources as they are now, as `git clone` would make it,
// and a directory of commands that a bare machine may lack.
var clone = sync.OnceValues(func() (dir string, err error) {
	root, err := cell.ModuleRoot()
	if err != nil {
		return "", err
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("git ls-files: %w", err)
	}
	dir = filepath.Join(scratch, "stout")
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if os.IsNotExist(err) { // deleted, and not yet committed
			continue
		}
		if err != nil {
			return "", err
		}
		if err := take(filepath.Join(root, name), filepath.Join(dir, name), info.Mode()); err != nil {
			return "", err
		}
	}
	return dir, nil
})

// take copies one file.
func take(from, to string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, mode.Perm())
}

// tools is a directory with curl, where this machine has none.
var tools = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "tools")
	if _, err := exec.LookPath("curl"); err == nil {
		return dir, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.Symlink(self, filepath.Join(dir, "curl"))
})

// built is the clone, with what `make build` makes.
var built = sync.OnceValues(func() (string, error) {
	dir, err := clone()
	if err != nil {
		return "", err
	}
	// The programs behind make run as well: compiling them is not to count as a cell
	// that does not come up.
	for _, args := range [][]string{{"make", "build"}, {"go", "build", "-tags", cell.BuildTags, "-o", "bin/local", "./test/local"}} {
		build := exec.Command(args[0], args[1:]...)
		build.Dir, build.Env = dir, environment(nil)
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return dir, nil
})

// environment is that of a shell. The directory of a build does not count, so
// that what was compiled elsewhere is of use here.
func environment(more map[string]string) []string {
	env := append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath"))
	for name, value := range more {
		env = append(env, name+"="+value)
	}
	return env
}

// freePorts are n ports in a row that nobody has at the moment. They are below
// those of test/local and test/cell, and of outgoing connections.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for first := 8001 + os.Getpid()%20*120; first < 11800; first += 10 {
		free := true
		for port := first; port < first+n && free; port++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if free = err == nil; free {
				_ = l.Close()
			}
		}
		if free {
			return first
		}
	}
	t.Fatal("there are no free ports")
	return 0
}
