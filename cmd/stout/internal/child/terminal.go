//go:build unix

package child

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal, lent to the command while it runs. A
// terminal sends keyboard signals to one process group only, and lets only that
// group read. The command has its own group, so that group must have the
// terminal; else neither Ctrl-C nor a prompt would work.
//
// The terminal is lent from the start if standard input is the terminal and
// standard output is not a pipe. In a pipeline, other members share *our* group
// and may want the keyboard (a pager). There it is lent when the kernel stops
// the command for reading or writing it.
//
// A nil *terminal means no terminal; every method accepts it.
type terminal struct {
	file  *os.File
	own   int         // our process group
	lent  int         // the group that has it; 0 while that is our own
	eager bool        // lend it from the start
	modes *term.State // to be restored if the command is killed
}

// openTerminal returns nil without a controlling terminal.
func openTerminal(stdin, stdout *os.File) *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: file, own: syscall.Getpgrp()}
	t.modes, _ = term.GetState(t.fd())
	t.eager = t.foreground() == t.own && isTerminal(stdin) && !isPipe(stdout)
	return t
}

func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

func isPipe(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

func (t *terminal) fd() int { return int(t.file.Fd()) }

// foreground returns the group that has the terminal, or -1.
func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// attach starts the command in the foreground. The command's process makes the
// change before it executes, so it never runs without the terminal.
func (t *terminal) attach(attr *syscall.SysProcAttr) {
	if t != nil && t.eager {
		attr.Foreground, attr.Ctty = true, t.fd()
	}
}

// attached records that the command has started. From now on this process may
// be in the background, and must be able to take the terminal back and to print
// a notice without being stopped for it. (Not earlier: the command would
// inherit that SIGTTOU is ignored.)
func (t *terminal) attached(group int) {
	if t == nil {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	if t.eager {
		t.lent = group
	}
}

// reclaim takes the terminal back after a command that could not be executed: its
// process had taken the terminal for its group before it ended.
func (t *terminal) reclaim() {
	if t == nil || !t.eager || syscall.Kill(-t.foreground(), 0) != syscall.ESRCH {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, t.own)
}

// lend gives the terminal to group if this process has it, and reports whether
// the group has it now.
func (t *terminal) lend(group int) bool {
	if t == nil || t.foreground() != t.own {
		return false
	}
	if unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group) != nil {
		return false
	}
	t.lent = group
	return true
}

// restore takes a lent terminal back after the command has stopped or ended.
// After a killed command it restores the terminal's modes. A Ctrl-C that ended
// the command reached only its group; restore also sends it to the rest of the
// job, such as the calling script, as if there were one group. It reports
// whether that happened.
func (t *terminal) restore(status syscall.WaitStatus) (interrupted bool) {
	if t == nil || t.lent == 0 {
		return false
	}
	had := t.foreground() == t.lent
	t.lent = 0
	if !had {
		return false
	}
	_ = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, t.own)
	if !status.Signaled() {
		return false
	}
	if t.modes != nil {
		_ = term.Restore(t.fd(), t.modes)
	}
	if status.Signal() != syscall.SIGINT {
		return false
	}
	// This process receives it last; see DieOfInterrupt. (Not signal.Ignore,
	// which no signal.Reset undoes.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	_ = syscall.Kill(0, syscall.SIGINT)
	return true
}

// suspend stops our own group as the command was stopped by sig: the shell that
// started this process sees its job stop, and a SIGCONT continues it. If no
// process could send that (an orphaned group), the kernel does not stop it.
// caught reports whether this process receives the signal instead of its effect.
func (t *terminal) suspend(sig syscall.Signal) (caught bool) {
	if t == nil {
		return false
	}
	if sig == syscall.SIGTTOU { // ignored by this process
		sig = syscall.SIGTSTP
	}
	_ = syscall.Kill(0, sig)
	return sig == syscall.SIGTSTP && !signal.Ignored(sig)
}

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close()
	}
}
