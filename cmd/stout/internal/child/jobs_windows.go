package child

import (
	"os"
	"os/signal"
	"syscall"
)

// Names of the ways to ask a command to stop and to kill it.
const (
	TermWord = "Ctrl-Break"
	KillWord = "terminated"
)

// terminal is empty here: a console has no foreground groups.
type terminal struct{}

func openTerminal(_, _ *os.File) *terminal { return nil }

func (t *terminal) close() {}

func (t *terminal) restore(syscall.WaitStatus) (interrupted bool) { return false }

// pass forwards a signal as the only one that a process group can receive.
func (s *supervisor) pass(syscall.Signal) { s.proc.terminate() }

// keyboardStops returns no signals: Windows has no job control.
func keyboardStops() (stops <-chan os.Signal, end func()) { return nil, func() {} }

func (s *supervisor) suspend() {}

// stopped is never called: Windows has no job control.
func (s *supervisor) stopped(syscall.Signal) {}

func exitCode(status syscall.WaitStatus) int { return int(status.ExitCode) }

// Signals starts to collect Ctrl-C, Ctrl-Break and the end of the console or of
// the user's session, instead of their effect on this process, until stop is
// called.
func Signals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c, func() { signal.Stop(c) }
}

// Ends reports whether sig asks a program to end.
func Ends(os.Signal) bool { return true }

// Foreground reports whether a SIGINT was most likely a Ctrl-C.
func Foreground() bool { return true }

// DieOfInterrupt does nothing: signals do not end programs here.
func DieOfInterrupt() {}

// DieOfPipe does nothing on Windows.
func DieOfPipe(*os.File) {}
