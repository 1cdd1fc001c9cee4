package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// onTerminal runs stout as the foreground job of a new terminal, types input
// after prompt appears, and returns everything shown.
func onTerminal(t *testing.T, prompt, input string, args ...string) (string, *os.ProcessState) {
	t.Helper()
	c := startCell(t)
	shown, state := withTerminal(t, c, prompt, input, args...)
	if locks := c.locks(t); len(locks) > 0 {
		t.Errorf("locks were left behind: %v", locks)
	}
	return shown, state
}

// withTerminal is onTerminal with a given cell.
func withTerminal(t *testing.T, c *testCell, prompt, input string, args ...string) (string, *os.ProcessState) {
	t.Helper()
	return onTerminalOf(t, c, prompt, input, "stout", args...)
}

// onTerminalOf is withTerminal for any program.
func onTerminalOf(t *testing.T, c *testCell, prompt, input, program string, args ...string) (string, *os.ProcessState) {
	t.Helper()
	tt := startOnTerminal(t, c, terminalWidth, exec.Command(program, args...), "NO_COLOR="+os.Getenv("NO_COLOR"))
	if prompt != "" {
		tt.until(prompt)
		tt.press(input)
	}
	return tt.wait(), tt.cmd.ProcessState
}

const terminalWidth = 60

// A command under a lock can be typed to.
func TestTerminalInput(t *testing.T) {
	shown, state := onTerminal(t, "name?", "Mike\n", "lock", "/a", "--", "sh", "-c", "echo name?; read x; echo hello $x")
	if !strings.Contains(shown, "hello Mike") || !state.Success() {
		t.Errorf("%v, shown:\n%s", state, shown)
	}
}

// Ctrl-C ends the command and releases the lock, and stout visibly dies of it:
// else a shell script would continue.
func TestTerminalInterrupt(t *testing.T) {
	shown, state := onTerminal(t, "going", "\x03", "lock", "/a", "--", "sh", "-c", "echo going; exec sleep 1000")
	status := state.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("%v, shown:\n%s", state, shown)
	}
}

// Without a shell that could continue it, as with ssh -t, Ctrl-Z stops nothing.
func TestTerminalStopWithoutAShell(t *testing.T) {
	shown, state := onTerminal(t, "going", "\x1a\x03", "lock", "/a", "--", "sh", "-c", "echo going; exec sleep 1000")
	status := state.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("%v, shown:\n%s", state, shown)
	}
}

// A command without the terminal stops at Ctrl-Z like stout, and is killed when
// it continues without its lock.
func TestTerminalStopInAPipeline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "n")
	script := `stout lock /a --ttl 1s -- sh -c 'echo >> ` + file + `; echo going; while :; do echo >> ` + file + `; sleep 0.01; done' | cat
sleep 1; wc -c < ` + file + `; sleep 0.3; wc -c < ` + file + `; fg; echo over`
	shown, state := onTerminalOf(t, startCell(t), "going", "\x1a", "bash", "--norc", "-mc", script)
	sizes := regexp.MustCompile(`(?m)^(\d+)\r?$`).FindAllStringSubmatch(shown, -1)
	if len(sizes) != 2 || sizes[0][1] != sizes[1][1] || !strings.Contains(shown, "over") {
		t.Errorf("%v, shown:\n%s", state, shown)
	}
}

// A command that deals with Ctrl-C by itself has its own exit code passed on.
func TestTerminalInterruptHandled(t *testing.T) {
	shown, state := onTerminal(t, "going", "\x03", "lock", "/a", "--", "sh", "-c",
		`trap "exit 9" INT; echo going; while :; do sleep 0.01; done`)
	if state.ExitCode() != 9 {
		t.Errorf("%v, shown:\n%s", state, shown)
	}
}

// Holding a lock in the foreground ends with Ctrl-C, and well.
func TestTerminalHold(t *testing.T) {
	shown, state := onTerminal(t, "Ctrl-C", "\x03", "lock", "/a")
	if !state.Success() {
		t.Errorf("%v, shown:\n%s", state, shown)
	}
}

// Colour is for terminals, unless it was turned off.
func TestTerminalColor(t *testing.T) {
	const escape = "\x1b["
	if shown, _ := onTerminal(t, "", "", "status"); !strings.Contains(shown, escape) {
		t.Errorf("no colour on a terminal:\n%q", shown)
	}
	if shown, _ := onTerminal(t, "", "", "status", "--no-color"); strings.Contains(shown, escape) {
		t.Errorf("colour in spite of --no-color:\n%q", shown)
	}
	t.Setenv("NO_COLOR", "1")
	if shown, _ := onTerminal(t, "", "", "status"); strings.Contains(shown, escape) {
		t.Errorf("colour in spite of NO_COLOR:\n%q", shown)
	}
}

// A watched status is shown again and again, in the same place, until Ctrl-C.
func TestTerminalWatch(t *testing.T) {
	const first, again = "\x1b[2J\x1b[Hcell     test", "\x1b[J\x1b[Hcell     test"
	shown, state := onTerminal(t, again, "\x03", "status", "--watch", "--no-color")
	status := state.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGINT || !strings.HasPrefix(shown, first) {
		t.Errorf("%v, shown:\n%q", state, shown)
	}
}

// On a narrow terminal the least important columns are dropped, not wrapped.
func TestTerminalNarrow(t *testing.T) {
	shown, _ := onTerminal(t, "", "", "status", "--no-color")
	for line := range strings.Lines(shown) {
		if len(strings.TrimRight(line, "\r\n")) > terminalWidth {
			t.Errorf("too wide: %q", line)
		}
	}
	if strings.Contains(shown, "PROMISE") || !strings.Contains(shown, "ADDRESS") {
		t.Errorf("shown:\n%s", shown)
	}
}

// Replacing a directory asks first, and only a yes counts.
func TestTerminalConfirm(t *testing.T) {
	for answer, done := range map[string]bool{"y": true, "YES": true, "": false, "n": false, "yo": false, "\x04": false} {
		c := startCell(t)
		other := c.outsider()
		shown, state := withTerminal(t, c, "[y/N] ", answer+"\n", "member", "replace", "r3", "--no-wait")
		c.mu.Lock()
		began := c.changes.next == newDirectory
		c.mu.Unlock()
		if began != done || state.Success() != done || strings.Contains(shown, "nothing was changed") == done {
			t.Errorf("%q: began %v, %v, shown:\n%s", answer, began, state, shown)
		}
		for _, what := range []string{"directory " + oldDirectory + ", unhealthy", "directory " + newDirectory, "permanent", "other 2 members: 2 healthy"} {
			if !strings.Contains(shown, what) {
				t.Errorf("it is not said: %q; shown:\n%s", what, shown)
			}
		}
		other.Close()
	}
}

// A waiter at a terminal sees the holder and its own position in one line,
// which is erased at the end of the wait.
func TestTerminalWaiting(t *testing.T) {
	c := startCell(t)
	c.seize(t, "other", "/a")
	const line = "\r\x1b[Kstout: waiting at position 1: /a is held by"
	shown, state := withTerminal(t, c, line, "\x03", "lock", "/a", "--", "true")
	status := state.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGINT || !strings.HasSuffix(shown, "\r\x1b[K") {
		t.Errorf("%v, shown:\n%q", state, shown)
	}
	if c.waiters(t, "/a") > 0 {
		t.Error("it waits still")
	}
}

// On a terminal, a file's control characters are escaped unless --raw is given;
// elsewhere the content is unchanged.
func TestGetOnATerminal(t *testing.T) {
	c, _ := evilCell(t)
	shown, _ := withTerminal(t, c, "", "", "get", nastyPath)
	if !strings.Contains(shown, `x\x1b[2J\u009b2J\x1b]0;t\a\u202e\u2066\u200b\ufe0f\u3164`+"\r\n"+`stout: all is well\x7f`) ||
		!strings.Contains(shown, "--raw prints them unchanged") {
		t.Errorf("shown is %q", shown)
	}
	if shown, _ := withTerminal(t, c, "", "", "get", nastyPath, "--raw"); !strings.Contains(shown, "x\x1b[2J") {
		t.Errorf("shown with --raw is %q", shown)
	}
	cmd := exec.Command("stout", "get", nastyPath)
	cmd.Env = append(os.Environ(), "STOUT_SERVER="+c.urlOf("r1"))
	if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), "x\x1b[2J\u009b2J") || strings.HasSuffix(string(out), "\n") {
		t.Errorf("a program is given %q, %v", out, err)
	}
}

// Enabling access control asks first, after showing the rules and tokens.
func TestTerminalEnable(t *testing.T) {
	for answer, code := range map[string]int{"\n": 1, "no\n": 1, "y\n": 0} {
		c := startCell(t)
		shown, state := withTerminal(t, c, "Enable access control? [y/N] ", answer, "access", "enable")
		on := c.do(http.MethodGet, lockapi.RouteTokens, nil, nil) != nil
		if state.ExitCode() != code || on != (code == 0) || !strings.Contains(shown, "against 0 rules and") || strings.Contains(shown, "stout_") != on {
			t.Errorf("answered %q: it is on: %v, %v\n%s", answer, on, state, shown)
		}
	}
}

// A command that cannot be executed leaves the terminal to its script.
func TestTerminalBadCommand(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := `stout lock /a -- ` + bad + `; echo code $?; read x; echo hello $x`
	shown, _ := onTerminalOf(t, startCell(t), "code", "Mike\n", "bash", "--norc", "-c", script)
	if !strings.Contains(shown, "code 127") || !strings.Contains(shown, "hello Mike") {
		t.Errorf("shown:\n%s", shown)
	}
}
