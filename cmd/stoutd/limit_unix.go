//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// reportFileSizeLimit has a write beyond the process's file size limit fail as
// any other write does, and end the process with a clear line: by default its
// signal would end a Go program with a stack trace of every goroutine.
func reportFileSizeLimit() { signal.Ignore(syscall.SIGXFSZ) }

// openFileLimit is how many files and connections the process may have open;
// false where that cannot be told. The Go runtime has raised it as far as it
// may.
func openFileLimit() (uint64, bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), err == nil // a signed number on FreeBSD
}
