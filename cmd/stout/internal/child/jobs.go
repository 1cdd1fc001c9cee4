//go:build unix

package child

import "syscall"

// How a command is asked to stop, and killed, in words.
const (
	TellWord = "SIGTERM"
	KillWord = "SIGKILL"
)

// pass forwards a signal. SIGCONT means that a shell put us into the
// foreground or the background: the terminal follows.
func (s *supervisor) pass(sig syscall.Signal) {
	if sig == syscall.SIGCONT {
		s.tty.lend(s.proc.pid)
	}
	s.proc.signal(sig)
}

// stopped deals with a command that was stopped. If it wants the terminal and
// we have it, it gets it. If it was stopped from the keyboard, or wants a
// terminal that is another job's, this process stops too, so that the shell
// sees its job stopped. A SIGSTOP from elsewhere is the business of whoever
// sent it: the lock stays held.
func (s *supervisor) stopped(sig syscall.Signal) {
	switch sig {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		if s.tty.lend(s.proc.pid) {
			s.proc.signal(syscall.SIGCONT)
			return
		}
	case syscall.SIGTSTP:
		s.tty.reclaim(0)
		s.notice(Stopped)
	default:
		return
	}
	s.tty.suspend(sig)
}

// exitCode is how the command ended, as shells have it.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
