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

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
)

// scratch is removed after all tests.
var scratch string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "curl" {
		curl(os.Args[1:])
	}
	testrun.Wait(6)
	os.Exit(testrun.Main(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "stout-docs-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		return m.Run()
	}))
}

// sources are the names of the files that `git clone` would make, plus
// uncommitted ones.
var sources = sync.OnceValues(func() ([]string, error) {
	root, err := cell.ModuleRoot()
	if err != nil {
		return nil, err
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return strings.Split(strings.TrimSuffix(string(names), "\x00"), "\x00"), nil
})

func clone(dir string) error {
	root, err := cell.ModuleRoot()
	if err != nil {
		return err
	}
	names, err := sources()
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(root, name))
		if os.IsNotExist(err) { // deleted, but not committed yet
			continue
		}
		if err == nil {
			err = copyFile(filepath.Join(root, name), filepath.Join(dir, name), info.Mode())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, mode.Perm())
}

// tools is a directory with a substitute for curl, if this machine lacks curl.
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

// built is a clone with the results of `make build` and the programs behind
// make run. Compiling them must not look like a cell that does not start.
var built = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "stout")
	if err := clone(dir); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"make", "build"},
		{"go", "build", "-tags", cell.BuildTags, "-o", "bin/devcell", "./test/devcell"},
		{"env", "CGO_ENABLED=0", "go", "build", "-tags", cell.BuildTags, "-o", "bin/cell/", "./cmd/stoutd", "./cmd/stout"}, // as in cell.Build
	} {
		build := exec.Command(args[0], args[1:]...)
		build.Dir, build.Env = dir, environment(nil)
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return dir, nil
})

// own makes a clone for one page. It has the same programs: they are built
// once, and the go command finds them up to date in each clone.
func own(t *testing.T) string {
	t.Helper()
	from, err := built()
	must(t, err)
	dir := filepath.Join(t.TempDir(), "stout")
	must(t, clone(dir))
	err = filepath.WalkDir(filepath.Join(from, "bin"), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(name, from))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		return os.Link(name, to)
	})
	must(t, err)
	return dir
}

// environment returns the environment of a shell. -trimpath makes results
// compiled in other directories usable here.
func environment(more map[string]string) []string {
	env := append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath"))
	for name, value := range more {
		env = append(env, name+"="+value)
	}
	return env
}

// ports is the position of freePorts.
var ports struct {
	sync.Mutex
	next int
}

// freePorts returns the first of n consecutive ports that are free now and that
// no other test of this process uses. They are below the ports of test/devcell
// and internal/freeport, and below the ports of outgoing connections.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	const first, last = 8001, 11800
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = first + os.Getpid()%20*120
	}
	for range (last - first) / 10 {
		if ports.next+n > last {
			ports.next = first
		}
		from, free := ports.next, true
		ports.next += 10
		for port := from; port < from+n && free; port++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if free = err == nil; free {
				_ = l.Close()
			}
		}
		if free {
			ports.next = from + n
			return from
		}
	}
	t.Fatal("there are no free ports")
	return 0
}
