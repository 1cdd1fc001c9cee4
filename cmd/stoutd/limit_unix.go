//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// reportFileSizeLimit makes a write beyond the process's file size limit fail like
// any other write, which ends the process with a clear line. By default the signal
// SIGXFSZ ends a Go program with a stack trace of every goroutine.
func reportFileSizeLimit() { signal.Ignore(syscall.SIGXFSZ) }
