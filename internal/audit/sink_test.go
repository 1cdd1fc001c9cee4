package audit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// open opens a log that must open.
func open(t *testing.T, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// writes writes a line to a log.
func writes(t *testing.T, l *Log, name string) {
	t.Helper()
	if err := l.Demand(t.Context(), by(name)); err != nil {
		t.Fatal(err)
	}
}

// until waits for an effect of another goroutine.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen within 30 s: ", what)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// Only its owner can access the file. A restart appends to it, and a line that an
// earlier process left incomplete does not spoil the next.
func TestRegularFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, Options{Path: path})
	writes(t, l, "user:one")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(read(t, path)+`{"time":"20`), 0o600); err != nil {
		t.Fatal(err)
	}
	l = open(t, Options{Path: path})
	writes(t, l, "user:two")
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(read(t, path), "\n")
	if len(lines) != 6 || !strings.Contains(lines[1], "user:one") || lines[2] != `{"time":"20` || !strings.Contains(lines[4], "user:two") {
		t.Errorf("%q", lines)
	}
}

// Open refuses a file that cannot be an audit log.
func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	l := open(t, Options{Path: path})
	defer l.Close(t.Context())
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	if s, err := net.Listen("unix", socket); err == nil {
		defer s.Close()
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Path: socket}, "it is a socket"},
		{Options{Path: path}, "another process writes to it"},
		{Options{Path: link}, "another process writes to it"},
		{Options{Path: path, MaxBytes: 1 << 20}, "another process writes to it"},
		{Options{Path: filepath.Join(dir, "none", "audit.log")}, "mkdir -m 700"},
		{Options{Path: dir}, "it is a directory"},
		{Options{Path: "/dev/null", MaxBytes: 1 << 20}, "cannot be rotated"},
	} {
		if _, err := Open(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

// After logrotate has moved the file away, Reopen begins a new file. If that fails,
// the log continues in the old file.
func TestReopen(t *testing.T) {
	for _, size := range []int64{0, 1 << 20} {
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "audit.log")
		l := open(t, Options{Path: path, MaxBytes: size})
		writes(t, l, "user:one")
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		writes(t, l, "user:two")
		l.Reopen()
		writes(t, l, "user:x") // may go to either
		until(t, "the file is there again", func() bool {
			writes(t, l, "user:three")
			now, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(now), "user:three")
		})
		if old := read(t, path+".1"); !strings.Contains(old, "user:one") || !strings.Contains(old, "user:two") || !strings.HasSuffix(old, "\n") {
			t.Error(old)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f := &file{path: filepath.Join(dir, "audit.log"), flag: os.O_CREATE}
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Reopen(); err == nil {
		t.Error("a file in a missing directory is opened")
	}
	if n, err := f.Write([]byte("x")); n != 1 || err != nil {
		t.Error(n, err)
	}
}

// Files are rotated at a size, and a limited number is kept.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Path: filepath.Join(dir, "audit.log"), MaxBytes: 1 << 20, Keep: 2})
	long := Record{Principal: "user:" + strings.Repeat("a", 3000)}
	for range 2000 {
		if err := l.Demand(t.Context(), long); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "two files are left beside", func() bool {
		aside, err := filepath.Glob(filepath.Join(dir, "audit-*.log"))
		return err == nil && len(aside) == 2
	})
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 || info.Size() > 1<<20 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A named pipe may have no reader yet, may lose it, and may get another.
func TestNamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	l := open(t, Options{Path: path})
	until(t, "nobody reads", func() bool { return l.Err() != nil })
	for range 2 {
		r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		until(t, "somebody reads", func() bool { return l.Demand(t.Context(), by("user:a")) == nil })
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, "user:a") {
				break
			}
		}
		_ = r.Close()
		until(t, "nobody reads any more", func() bool { return l.Demand(t.Context(), by("user:b")) != nil })
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// /dev/full is the kernel's full disk.
func TestDevFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	l := open(t, Options{Path: "/dev/full", Required: true, Logger: zerolog.Nop()})
	if err := l.Demand(t.Context(), by("a")); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	_ = l.Close(t.Context())
}

func TestWriter(t *testing.T) {
	r, w := io.Pipe()
	l := open(t, Options{Path: "-", Stdout: w})
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || !strings.Contains(line, Started) {
		t.Errorf("%q, %v", line, err)
	}
	l.Reopen()
	_ = r.Close()
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
