//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fullPipe returns both ends of a full pipe without an active reader.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var ends [2]int
	if err := errors.Join(syscall.Pipe(ends[:]), syscall.SetNonblock(ends[1], true)); err != nil {
		t.Fatal(err)
	}
	for size := 1 << 12; size > 0; {
		if _, err := syscall.Write(ends[1], make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := syscall.SetNonblock(ends[1], false); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(ends[0]), "r"), os.NewFile(uintptr(ends[1]), "w")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// started starts stout against a cell. The function returned waits for its end.
func started(t *testing.T, c *testCell, stdout, stderr *os.File, args ...string) (cmd *exec.Cmd, ended func() *os.ProcessState) {
	t.Helper()
	cmd = exec.Command("stout", args...)
	cmd.Env = append(os.Environ(), "STOUT_SERVER="+c.urlOf("r1"))
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func() *os.ProcessState {
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait()
		return cmd.ProcessState
	}
}

// awaited waits until a condition holds.
func awaited(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it does not come about")
		}
	}
}

// The command of stout lock is asked to stop, and a hold without a command
// ends, although the output of stout is blocked: standard error, or both
// streams, are a full pipe or one without a reader.
func TestLockWithoutAReader(t *testing.T) {
	t.Parallel()
	for _, reader := range []string{"hangs", "gone"} {
		for _, command := range []string{"", "sleep 1000"} {
			t.Run(reader+" "+command, func(t *testing.T) {
				t.Parallel()
				c := startCell(t)
				r, w := fullPipe(t)
				if reader == "gone" {
					r.Close()
				}
				args, stdout := []string{"lock", "/a", "--ttl", "1s"}, w
				if command != "" {
					args, stdout = append(append(args, "--"), strings.Fields(command)...), nil
				}
				_, ended := started(t, c, stdout, w, args...)
				atOnce := command == "" && reader == "gone" // printing the grant ends it
				if !atOnce {
					awaited(t, func() bool { return c.waiters(t, "/a") == 0 })
					c.ReleaseByForce("/a")
				}
				state := ended()
				switch {
				case atOnce:
					if s := state.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGPIPE {
						t.Errorf("it ended as %v", state)
					}
				case state.ExitCode() != 76:
					t.Errorf("it ended as %v", state)
				}
			})
		}
	}
}

// A waiter gets its turn and ends by a signal although its messages are not
// read.
func TestWaiterWithoutAReader(t *testing.T) {
	t.Parallel()
	c := startCell(t)
	holder := c.seize(t, "holder", "/a")
	_, w := fullPipe(t)
	first, firstEnded := started(t, c, nil, w, "lock", "/a", "--", "sh", "-c", "exit 3")
	awaited(t, func() bool { return c.waiters(t, "/a") == 1 && c.reads.Load() > 0 })
	second, secondEnded := started(t, c, nil, w, "lock", "/a", "--", "true")
	awaited(t, func() bool { return c.waiters(t, "/a") == 2 && c.reads.Load() > 1 })
	_ = second.Process.Signal(syscall.SIGTERM)
	if state := secondEnded(); state.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("the one that was signalled ended as %v", state)
	}
	c.ExpireSession(holder.ID)
	if state := firstEnded(); state.ExitCode() != 3 {
		t.Errorf("%v ended as %v", first.Args, state)
	}
}

// An answer that cannot be written exits with 74, for any command. If the
// reader has read enough, stout ends by SIGPIPE without a message, as other
// programs do.
func TestAnswersThatNobodyGets(t *testing.T) {
	t.Parallel()
	c := startCell(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	s := c.seize(t, "holder", "/a")
	lines := []string{
		"status", "locks", "explain /a", "sessions", "session show " + s.ID, "check exclusive:101:/a", "check exclusive:7:/b",
		"put /f x", "get /f", "ls", "ls --tree", "watch /f --after 0 -n 1", "watch /f --after 0", "watch /f --after 0 -o json", "rm /f",
		"member list", "lock /free", "put /e x --ephemeral", "put /e x --ephemeral -o json -- true", "access whoami", "token create user:x",
		"status --watch", "status --watch -o json", "version", "--version", "--help", "lock --help", "completion bash", "__complete lock ''",
	}
	for _, line := range lines {
		said, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		_, ended := started(t, c, full, said, strings.Fields(line)...)
		state := ended()
		text, _ := os.ReadFile(said.Name())
		if state.ExitCode() != 74 || !bytes.Contains(text, []byte("stout: the answer is incomplete: write /dev/stdout: no space left on device\n")) {
			t.Errorf("stout %s, to a full disk: %v; it said %q", line, state, text)
		}
	}
	for _, line := range lines {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		_, ended := started(t, c, w, nil, strings.Fields(line)...)
		state := ended()
		w.Close()
		if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGPIPE {
			t.Errorf("stout %s, to nobody: %v", line, state)
		}
	}
	if locks := c.locks(t); len(locks) != 1 {
		t.Errorf("locks were left behind: %v", locks)
	}
}
