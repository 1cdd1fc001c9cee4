//go:build unix

package child

import (
	"os"
	"os/signal"
	"syscall"
)

// Names of the ways to ask a command to stop and to kill it.
const (
	TermWord = "SIGTERM"
	KillWord = "SIGKILL"
)

// pass forwards a signal. After a SIGCONT, which a shell sends when it moves
// this process to the foreground or background, the terminal follows.
func (s *supervisor) pass(sig syscall.Signal) {
	if sig == syscall.SIGCONT {
		s.tty.lend(s.proc.pid)
	}
	s.proc.signal(sig)
}

// keyboardStops collects this process's SIGTSTP until end is called: by default
// a Ctrl-Z would stop this process, and not the command if that has no terminal.
func keyboardStops() (stops <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(c, syscall.SIGTSTP)
	}
	return c, func() { signal.Stop(c) }
}

// suspend stops the command and this process after a SIGTSTP. The SIGCONT that
// ends it is forwarded.
func (s *supervisor) suspend() {
	if !MayStop() {
		return
	}
	if !s.suspending {
		s.proc.signal(syscall.SIGSTOP)
		s.cmd.Notice(Stopped)
	}
	s.suspending = false
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// stopped handles a stop of the command. If the command wants the terminal and
// this process has it, the command gets it. If it was stopped from the
// keyboard, or wants another job's terminal, this process stops too, so that
// the shell sees its job stopped. Without such a shell the command continues.
// After a SIGSTOP from elsewhere, the lock stays held.
func (s *supervisor) stopped(sig syscall.Signal) {
	switch sig {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		if s.tty.lend(s.proc.pid) {
			s.proc.signal(syscall.SIGCONT)
			return
		}
	case syscall.SIGTSTP:
		if !MayStop() {
			s.proc.signal(syscall.SIGCONT)
			return
		}
		s.tty.restore(0)
		s.cmd.Notice(Stopped)
	default:
		return
	}
	s.suspending = s.tty.suspend(sig)
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
