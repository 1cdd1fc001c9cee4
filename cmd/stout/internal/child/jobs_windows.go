package child

import (
	"os"
	"os/signal"
	"syscall"
)

// How a command is asked to stop, and killed, in words.
const (
	TellWord = "Ctrl-Break"
	KillWord = "terminated"
)

// terminal is nothing here: a console knows no groups in its foreground.
type terminal struct{}

func openTerminal(_, _ *os.File) *terminal { return nil }

func (t *terminal) close() {}

func (t *terminal) reclaim(syscall.WaitStatus) (interrupted bool) { return false }

// pass forwards a signal, as the one that a group of processes can be sent.
func (s *supervisor) pass(syscall.Signal) { s.proc.terminate() }

// stopped is never called: there is no job control.
func (s *supervisor) stopped(syscall.Signal) {}

func exitCode(status syscall.WaitStatus) int { return int(status.ExitCode) }

// Signals starts to collect Ctrl-C, Ctrl-Break and the end of the console or of
// the user's session, instead of what they would do to this process, until stop
// is called.
func Signals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c, func() { signal.Stop(c) }
}

// Ends reports whether sig asks a program to end.
func Ends(os.Signal) bool { return true }

// Foreground reports whether a SIGINT was most likely a Ctrl-C.
func Foreground() bool { return true }

// DieOfInterrupt does nothing: programs do not die of signals here.
func DieOfInterrupt() {}

// DieOfPipe does nothing either.
func DieOfPipe(*os.File) {}
