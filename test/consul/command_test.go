//go:build unix

package consul

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
)

// consul is a call of the command consul, for the server at addr.
func consulCommand(t *testing.T, addr string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(theCommand(t), args...)
	cmd.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+addr)
	return cmd
}

// mustConsul runs the command and returns its output.
func mustConsul(t *testing.T, addr, stdin string, args ...string) string {
	t.Helper()
	cmd := consulCommand(t, addr, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("consul %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// file is a file that programs of a test write.
type file string

func newFile(t *testing.T) file { return file(filepath.Join(t.TempDir(), "file")) }

func (f file) content() string {
	content, _ := os.ReadFile(string(f)) // it may come later
	return string(content)
}

// becomes waits until the file has a content.
func (f file) becomes(t *testing.T, want string) {
	t.Helper()
	until(t, fmt.Sprintf("%s has %q", f, want), func() error {
		if got := f.content(); got != want {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

func (f file) write(t *testing.T, content string) {
	t.Helper()
	must(t, os.WriteFile(string(f), []byte(content), 0o644))
}

// sessions waits until the server has a number of sessions, and returns them.
func sessions(t *testing.T, addr string, want int) (all []struct{ ID, Name string }) {
	t.Helper()
	until(t, fmt.Sprintf("%d sessions", want), func() error {
		all = nil
		if err := get(addr, "/v1/session/list", &all); err != nil {
			return err
		}
		if len(all) != want {
			return fmt.Errorf("%d sessions", len(all))
		}
		return nil
	})
	return all
}

// TestConsulKV: keys are put, read, listed, deleted, exported and imported.
func TestConsulKV(t *testing.T) {
	testrun.Nightly(t)
	t.Parallel()
	addr := serve(t)
	mustConsul(t, addr, "", "kv", "put", "-flags=42", "app/name", "one")
	mustConsul(t, addr, "", "kv", "put", "app/", "")
	mustConsul(t, addr, "", "kv", "put", "app/sub/ümlaut key?", "two\nlines")
	mustConsul(t, addr, "three", "kv", "put", "app/sub/b", "-")
	mustConsul(t, addr, "", "kv", "put", "other", "4")
	check := func(want string, args ...string) {
		t.Helper()
		if got := mustConsul(t, addr, "", append([]string{"kv"}, args...)...); got != want {
			t.Errorf("consul kv %s: %q, want %q", strings.Join(args, " "), got, want)
		}
	}
	check("one\n", "get", "app/name")
	check("app/\napp/name\napp/sub/\n", "get", "-keys", "-separator=/", "app/")
	check("app/:\napp/name:one\napp/sub/b:three\napp/sub/ümlaut key?:two\nlines\n", "get", "-recurse", "app/")
	exported := mustConsul(t, addr, "", "kv", "export")
	if strings.Count(exported, `"key"`) != 5 || !strings.Contains(exported, `"flags": 42`) {
		t.Fatalf("export: %s", exported)
	}

	// A change with -cas needs the index of the latest one.
	var pair []struct{ ModifyIndex uint64 }
	must(t, get(addr, "/v1/kv/other", &pair))
	mustConsul(t, addr, "", "kv", "put", "-cas", fmt.Sprint("-modify-index=", pair[0].ModifyIndex), "other", "5")
	if out, err := consulCommand(t, addr, "kv", "put", "-cas", fmt.Sprint("-modify-index=", pair[0].ModifyIndex), "other", "6").CombinedOutput(); err == nil {
		t.Errorf("an old index: %s", out)
	}
	if out, err := consulCommand(t, addr, "kv", "delete", "-cas", fmt.Sprint("-modify-index=", pair[0].ModifyIndex), "other").CombinedOutput(); err == nil {
		t.Errorf("an old index: %s", out)
	}
	check("5\n", "get", "other")

	mustConsul(t, addr, "", "kv", "delete", "-recurse", "app/")
	mustConsul(t, addr, "", "kv", "delete", "other")
	check("", "get", "-keys", "")
	mustConsul(t, addr, exported, "kv", "import", "-")
	if again := mustConsul(t, addr, "", "kv", "export"); again != exported {
		t.Errorf("exported after an import: %s\nbefore: %s", again, exported)
	}
}

// TestConsulLock: one command runs at a time, and a lost lock ends its command.
func TestConsulLock(t *testing.T) {
	testrun.Nightly(t)
	t.Parallel()
	addr := serve(t)
	log, open := newFile(t), newFile(t)
	script := fmt.Sprintf(`echo $NAME begins >> %s; while [ ! -e %s ]; do sleep 0.05; done; echo $NAME ends >> %[1]s`, log, open)
	start := func(name string) *process {
		cmd := consulCommand(t, addr, "lock", "-verbose", "-child-exit-code", "jobs/nightly", script)
		cmd.Env = append(cmd.Env, "NAME="+name)
		return run(t, cmd)
	}
	a := start("a")
	log.becomes(t, "a begins\n")
	b := start("b")
	sessions(t, addr, 2)
	if out, err := consulCommand(t, addr, "lock", "-timeout=1s", "jobs/nightly", "true").CombinedOutput(); err == nil {
		t.Errorf("a third within a second: %s", out)
	}
	open.write(t, "")
	if a, b := a.wait(t), b.wait(t); a != 0 || b != 0 {
		t.Errorf("exit codes %d, %d", a, b)
	}
	log.becomes(t, "a begins\na ends\nb begins\nb ends\n")
	sessions(t, addr, 0)

	must(t, os.Remove(string(open)))
	c := start("c")
	log.becomes(t, "a begins\na ends\nb begins\nb ends\nc begins\n")
	put(t, addr, "/v1/session/destroy/"+sessions(t, addr, 1)[0].ID, "")
	c.wait(t)
	if !strings.Contains(c.output(), "Lock lost, killing child") || strings.Contains(log.content(), "c ends") {
		t.Errorf("output: %s, %q", c.output(), log.content())
	}
}

// TestConsulSemaphore: with -n 2, two commands run at a time, and no third.
func TestConsulSemaphore(t *testing.T) {
	testrun.Nightly(t)
	t.Parallel()
	addr := serve(t)
	log, open := newFile(t), newFile(t)
	script := fmt.Sprintf(`echo begins >> %s; while [ ! -e %s ]; do sleep 0.05; done; echo ends >> %[1]s`, log, open)
	var all []*process
	for range 3 {
		all = append(all, run(t, consulCommand(t, addr, "lock", "-n=2", "jobs/few", script)))
	}
	log.becomes(t, "begins\nbegins\n")
	sessions(t, addr, 3)
	if out, err := consulCommand(t, addr, "lock", "-n=2", "-timeout=1s", "jobs/few", "true").CombinedOutput(); err == nil {
		t.Errorf("a fourth within a second: %s", out)
	}
	if got := log.content(); got != "begins\nbegins\n" {
		t.Errorf("two may run: %q", got)
	}
	open.write(t, "")
	for _, p := range all {
		if code := p.wait(t); code != 0 {
			t.Errorf("exit code %d: %s", code, p.output())
		}
	}
	if got := log.content(); strings.Count(got, "begins\n") != 3 || strings.Count(got, "ends\n") != 3 {
		t.Errorf("three run in the end: %q", got)
	}
}

// TestConsulWatch: a watch of a key, and of the keys with a prefix, runs its
// handler at the start and after each change.
func TestConsulWatch(t *testing.T) {
	testrun.Nightly(t)
	t.Parallel()
	addr := serve(t)
	latest := func(f file, out any) error {
		lines := strings.Split(strings.TrimSpace(f.content()), "\n")
		return json.Unmarshal([]byte(lines[len(lines)-1]), out)
	}
	type pair struct {
		Key   string
		Value []byte
	}
	key, prefix := newFile(t), newFile(t)
	mustConsul(t, addr, "", "kv", "put", "watched/a", "1")
	run(t, consulCommand(t, addr, "watch", "-type=key", "-key=watched/a", fmt.Sprintf("(cat; echo) >> %s", key)))
	run(t, consulCommand(t, addr, "watch", "-type=keyprefix", "-prefix=watched/", fmt.Sprintf("(cat; echo) >> %s", prefix)))
	expect := func(values ...string) {
		t.Helper()
		until(t, fmt.Sprint("the handlers have ", values), func() error {
			var one pair
			var all []pair
			if err := errors.Join(latest(key, &one), latest(prefix, &all)); err != nil {
				return err
			}
			if string(one.Value) != values[0] || len(all) != len(values) {
				return fmt.Errorf("%v, %v", one, all)
			}
			for i, v := range values {
				if string(all[i].Value) != v {
					return fmt.Errorf("%v, %v", one, all)
				}
			}
			return nil
		})
	}
	expect("1")
	mustConsul(t, addr, "", "kv", "put", "watched/a", "2")
	expect("2")
	mustConsul(t, addr, "", "kv", "put", "watched/b", "3")
	expect("2", "3")
	before := key.content()
	mustConsul(t, addr, "", "kv", "put", "watched/c", "4")
	expect("2", "3", "4")
	if got := key.content(); got != before {
		t.Errorf("a change of another key runs the handler: %s", got)
	}
	mustConsul(t, addr, "", "kv", "delete", "watched/b")
	expect("2", "4")
}
