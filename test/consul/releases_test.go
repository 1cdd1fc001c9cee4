//go:build unix

package consul

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// released is a module as its authors released it.
type released struct {
	path, version string
	// edits are flags of go mod edit. They remove replacements by folders that
	// the released module does not include, so that released modules take their
	// place.
	edits []string
}

var (
	clientLibrary = released{path: "github.com/hashicorp/consul/api", version: "v1.34.5"}

	consulItself = released{path: "github.com/hashicorp/consul", version: "v1.14.11", edits: []string{
		"-dropreplace=github.com/hashicorp/consul/api",
		"-dropreplace=github.com/hashicorp/consul/sdk",
		"-dropreplace=github.com/hashicorp/consul/proto-public",
	}}

	consulTemplate = released{path: "github.com/hashicorp/consul-template", version: "v0.41.1"}

	vault = released{path: "github.com/hashicorp/vault", version: "v1.14.1", edits: []string{
		"-dropreplace=github.com/hashicorp/vault/api",
		"-dropreplace=github.com/hashicorp/vault/api/auth/approle",
		"-dropreplace=github.com/hashicorp/vault/api/auth/kubernetes",
		"-dropreplace=github.com/hashicorp/vault/api/auth/userpass",
		"-dropreplace=github.com/hashicorp/vault/sdk",
	}}

	valkeyrie = released{path: "github.com/kvtools/consul", version: "v1.0.2"}

	// The provider needs no fork of Traefik's: of mux it names one type.
	traefik = released{path: "github.com/traefik/traefik/v3", version: "v3.0.4", edits: []string{
		"-dropreplace=github.com/abbot/go-http-auth",
		"-droprequire=github.com/abbot/go-http-auth",
		"-dropreplace=github.com/gorilla/mux",
		"-require=github.com/gorilla/mux@v1.8.1",
	}}
)

// work is the directory of this run; TestMain makes and removes it.
var work string

// source is a copy of a module, with the edited go.mod.
type source string

// open downloads the module and copies it.
func (r released) open(t testing.TB) source {
	t.Helper()
	out, err := command(work, "go", "mod", "download", "-json", r.path+"@"+r.version)
	var found struct{ Dir, Error string }
	if e := json.Unmarshal(out, &found); err != nil || e != nil || found.Error != "" {
		t.Fatalf("download %s: %v: %s", r.path, errors.Join(err, e), found.Error)
	}
	dir, err := os.MkdirTemp(work, "module")
	must(t, err)
	must(t, os.CopyFS(dir, os.DirFS(found.Dir)))
	s := source(dir)
	for _, name := range []string{"go.mod", "go.sum"} { // the go command changes them
		must(t, os.Chmod(filepath.Join(dir, name), 0o644))
	}
	if len(r.edits) > 0 {
		if _, err := command(dir, "go", append([]string{"mod", "edit"}, r.edits...)...); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// write writes a file of the module.
func (s source) write(t testing.TB, name, content string) {
	t.Helper()
	file := filepath.Join(string(s), name)
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // files of modules are read-only
		t.Fatal(err)
	}
	must(t, os.WriteFile(file, []byte(content), 0o644))
}

// change replaces old in a file of the module, where it occurs once.
func (s source) change(t testing.TB, name, old, with string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(string(s), name))
	must(t, err)
	if n := bytes.Count(content, []byte(old)); n != 1 {
		t.Fatalf("%s has %q %d times, want once: does this release need another change?", name, old, n)
	}
	s.write(t, name, strings.Replace(string(content), old, with, 1))
}

// compile builds a program, or with "test -c" the tests of a package.
func (s source) compile(t testing.TB, program, pkg string, verb ...string) string {
	t.Helper()
	file := filepath.Join(work, filepath.Base(string(s))+"-"+program)
	args := append(verb, "-mod=mod", "-ldflags=-s -w", "-o", file, pkg)
	if _, err := command(string(s), "go", args...); err != nil {
		t.Fatal(err)
	}
	return file
}

// program builds a program of the module. Without the paths of this copy, the
// next run finds its packages in the cache.
func (s source) program(t testing.TB, name, pkg string) string {
	t.Helper()
	return s.compile(t, name, pkg, "build", "-trimpath")
}

// tests builds the tests of a package of the module, with the flags of our own
// tests: they have compiled the standard library.
func (s source) tests(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	return s.compile(t, "module.test", pkg, append([]string{"test", "-c", "-vet=off"}, flags...)...)
}

// command runs a command and returns its standard output. The error has its
// standard error.
func command(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &complaint)
	}
	return out, nil
}

// theCommand is the program consul, built once, or the one that
// STOUT_TEST_CONSUL names.
func theCommand(t testing.TB) string {
	t.Helper()
	commandOnce.Do(func() {
		if commandFile = os.Getenv("STOUT_TEST_CONSUL"); filepath.IsAbs(commandFile) {
			return
		}
		commandFile = "" // in case the build fails
		commandFile = consulItself.open(t).program(t, "consul", ".")
	})
	if commandFile == "" {
		t.Fatal("the command consul does not build")
	}
	return commandFile
}

var (
	commandOnce sync.Once
	commandFile string
)
