package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/internal/testrun"
)

// Control sequences with which a program takes over a terminal and restores it.
const (
	entersScreen = "\x1b[?1049h"
	givesScreen  = "\x1b[?1049l"
	showsCursor  = "\x1b[?25h"
)

// topTerminal is a terminal on which something runs.
type topTerminal struct {
	t        *testing.T
	keyboard *os.File
	cmd      *exec.Cmd
	before   *unix.Termios
	screen   *os.File

	mu    sync.Mutex
	shown strings.Builder
	news  chan struct{} // closed, and made anew, when more is shown
	over  bool
	read  int // up to where it was looked at
}

// startTop runs a command with stout top on a terminal, against a cell.
func startTop(t *testing.T, c *testCell, args ...string) *topTerminal {
	t.Helper()
	return startOnTerminal(t, c, 80, exec.Command(args[0], args[1:]...), "NO_COLOR=1")
}

// startOnTerminal runs a command on a terminal of so many columns, against a cell.
func startOnTerminal(t *testing.T, c *testCell, columns uint16, cmd *exec.Cmd, env ...string) *topTerminal {
	t.Helper()
	keyboard, screen := testrun.Terminal(t, columns)
	before, err := unix.IoctlGetTermios(int(screen.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	tt := &topTerminal{t: t, keyboard: keyboard, cmd: cmd, screen: screen, before: before, news: make(chan struct{})}
	cmd.Env = append(append(os.Environ(), "STOUT_SERVER="+c.urlOf("r1"), "TERM=xterm"), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go tt.listen()
	return tt
}

func (tt *topTerminal) listen() {
	buf := make([]byte, 4096)
	for {
		n, err := tt.keyboard.Read(buf)
		tt.mu.Lock()
		tt.shown.Write(buf[:n])
		tt.over = err != nil
		close(tt.news)
		tt.news = make(chan struct{})
		tt.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// until waits for text behind what was waited for before.
func (tt *topTerminal) until(text string) {
	tt.t.Helper()
	limit := time.After(patience)
	for {
		tt.mu.Lock()
		all, news, over := tt.shown.String(), tt.news, tt.over
		i := strings.Index(all[tt.read:], text)
		if i >= 0 {
			tt.read += i + len(text)
			tt.mu.Unlock()
			return
		}
		tt.mu.Unlock()
		if over {
			tt.t.Fatalf("%q does not come; shown was\n%q", text, all)
		}
		select {
		case <-news:
		case <-limit:
			_ = tt.cmd.Process.Kill()
			tt.t.Fatalf("%q does not come in time; shown was\n%q", text, all)
		}
	}
}

func (tt *topTerminal) press(keys string) {
	tt.t.Helper()
	if _, err := io.WriteString(tt.keyboard, keys); err != nil {
		tt.t.Fatal(err)
	}
}

// ends waits for the end, and checks that the terminal's modes are restored.
func (tt *topTerminal) ends() {
	tt.t.Helper()
	kill := time.AfterFunc(patience, func() { _ = tt.cmd.Process.Kill() })
	_ = tt.cmd.Wait()
	kill.Stop()
	after, err := unix.IoctlGetTermios(int(tt.screen.Fd()), unix.TCGETS)
	if err != nil {
		tt.t.Fatal(err)
	}
	if *after != *tt.before {
		tt.t.Errorf("the terminal was left as %+v; it was %+v", after, tt.before)
	}
}

// end waits for the end, checks that the terminal is restored, and returns the
// status and everything shown.
func (tt *topTerminal) end() (syscall.WaitStatus, string) {
	tt.t.Helper()
	all := tt.wait()
	entered, given := strings.LastIndex(all, entersScreen), strings.LastIndex(all, givesScreen)
	if entered < 0 || given < entered || !strings.Contains(all[given:], showsCursor) && strings.LastIndex(all, showsCursor) < entered {
		tt.t.Errorf("the screen was not given back: %q", all)
	}
	return tt.cmd.ProcessState.Sys().(syscall.WaitStatus), all
}

// wait waits for the end, and returns everything shown.
func (tt *topTerminal) wait() string {
	tt.t.Helper()
	tt.ends()
	tt.screen.Close()
	for limit := time.After(patience); ; {
		tt.mu.Lock()
		all, news, over := tt.shown.String(), tt.news, tt.over
		tt.mu.Unlock()
		if over {
			return all
		}
		select {
		case <-news:
		case <-limit:
			tt.t.Fatal("the terminal does not close")
		}
	}
}

// lockedCell is a cell with a lock that is held and waited for.
func lockedCell(t *testing.T) *testCell {
	t.Helper()
	c := startCell(t)
	c.seize(t, "first-holder", "/db/primary")
	c.seize(t, "first-waiter", "/db/primary")
	return c
}

// stout top shows the pages that keys ask for, and each way to end it gives the
// terminal back.
func TestTopOnATerminal(t *testing.T) {
	for name, tc := range map[string]struct {
		ends func(*topTerminal)
		well func(syscall.WaitStatus) bool
	}{
		"q":      {func(tt *topTerminal) { tt.press("q") }, func(s syscall.WaitStatus) bool { return s.Exited() && s.ExitStatus() == 0 }},
		"Ctrl-C": {func(tt *topTerminal) { tt.press("\x03") }, func(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGINT }},
		"TERM": {func(tt *topTerminal) { _ = tt.cmd.Process.Signal(syscall.SIGTERM) },
			func(s syscall.WaitStatus) bool { return s.Exited() && s.ExitStatus() == 128+int(syscall.SIGTERM) }},
	} {
		t.Run(name, func(t *testing.T) {
			tt := startTop(t, lockedCell(t), "stout", "top")
			tt.until("test  master r1")
			tt.until("REPLICA")
			tt.press("2")
			tt.until("1 lock by path")
			tt.until("first-holder")
			tt.press("\r")
			tt.until("first-waiter")
			tt.press("\x1a") // no shell would continue it
			tt.press("3")
			tt.until("LEASE LEFT")
			tc.ends(tt)
			if status, shown := tt.end(); !tc.well(status) {
				t.Errorf("it ended as %v; shown was %q", status, shown)
			}
		})
	}
}

// A signal ends stout top also on a terminal that takes nothing, as that of an
// ssh that hangs.
func TestTopOnATerminalThatHangs(t *testing.T) {
	tt := startTop(t, lockedCell(t), "stout", "top")
	tt.until("REPLICA")
	if err := unix.IoctlSetInt(int(tt.screen.Fd()), unix.TCXONC, unix.TCOOFF); err != nil {
		t.Fatal(err)
	}
	_ = tt.cmd.Process.Signal(syscall.SIGTERM)
	if tt.ends(); tt.cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("it ended as %v", tt.cmd.ProcessState)
	}
}

// Ctrl-Z gives the terminal to the shell, and fg takes it again.
func TestTopIsSuspended(t *testing.T) {
	tt := startTop(t, lockedCell(t), "bash", "--norc", "-mc", "stout top; echo st''opped; fg; echo e''nd")
	tt.until(entersScreen)
	tt.until("REPLICA")
	tt.press("\x1a")
	tt.until(givesScreen)
	tt.until("stopped")
	tt.until(entersScreen)
	tt.until("REPLICA")
	tt.press("q")
	tt.until(givesScreen)
	tt.until("end")
	if status, shown := tt.end(); !status.Exited() {
		t.Errorf("it ended as %v; shown was %q", status, shown)
	}
}

// Foreign text is shown on every page without control sequences: the output
// contains only cursor movements, clearing, modes and styles.
func TestTopIsNotControlled(t *testing.T) {
	c, _ := evilCell(t)
	tt := startTop(t, c, "stout", "top")
	tt.until("REPLICA")
	for _, step := range [][2]string{{"2", "QUEUE"}, {"\r", "u202e"}, {"3", "LEASE LEFT"}, {"\r", "u202e"}, {"4", "directory"}, {"\r", "u202e"}, {"5", "events by time"}, {"6", "MEMBER"}, {"/", ""}} {
		tt.press(step[0])
		tt.until(step[1])
	}
	tt.press("q")
	_, shown := tt.end()
	for rest := shown; ; {
		before, after, found := strings.Cut(rest, "\x1b")
		if i := strings.IndexFunc(before, func(r rune) bool { return !strings.ContainsRune("\r\n\b\t", r) && safetext.Hidden(r) }); i >= 0 {
			t.Fatalf("what a terminal obeys, or does not show, is in %q", before)
		}
		if !found {
			break
		}
		if moved, ok := strings.CutPrefix(after, "M"); ok { // scrolls down (RI)
			rest = moved
			continue
		}
		end := strings.IndexFunc(after, func(r rune) bool { return r >= '@' && r <= '~' && r != '[' })
		if !strings.HasPrefix(after, "[") || end < 0 {
			t.Fatalf("what is no harmless sequence is in %q", fmt.Sprintf("%.80s", after))
		}
		rest = after[end+1:]
	}
}
