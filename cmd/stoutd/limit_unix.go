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
