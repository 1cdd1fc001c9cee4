//go:build unix

package child

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Signals starts to collect this process's SIGINT, SIGTERM, SIGHUP, SIGQUIT,
// SIGUSR1, SIGUSR2 and SIGCONT, instead of their default effect, until stop is
// called. Signals ignored from the start (by nohup, or as a script's background
// job) stay ignored, here and in the command.
func Signals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, syscall.SIGCONT)
	for _, sig := range []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	return c, func() { signal.Stop(c) }
}

// Ends reports whether sig asks a program to end.
func Ends(sig os.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// Foreground reports whether this process is in the foreground of a terminal. A
// SIGINT was then most likely a Ctrl-C.
func Foreground() bool {
	t := openTerminal(nil, nil)
	if t == nil {
		return false
	}
	defer t.close()
	return t.foreground() == t.own
}

// DieOfInterrupt ends this process by a SIGINT. After Ctrl-C a shell ends its
// script only if its child died of SIGINT; after an exit with any code it
// continues. DieOfInterrupt returns only if this fails.
func DieOfInterrupt() {
	signal.Reset(syscall.SIGINT)
	if syscall.Kill(os.Getpid(), syscall.SIGINT) == nil {
		time.Sleep(time.Second) // for the signal to end us
	}
}

// DieOfPipe ends this process by SIGPIPE, like a program that writes to a pipe
// without a reader. It returns only if there is a reader.
func DieOfPipe(stdout *os.File) {
	signal.Reset(syscall.SIGPIPE)
	_, _ = stdout.WriteString("\n") // Go's runtime raises SIGPIPE only at such a write
}
