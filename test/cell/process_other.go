//go:build !linux

package cell

import (
	"os"
	"syscall"
)

// childAttributes puts a replica in a process group of its own, so that a
// Ctrl-C reaches only the program that runs the cell.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// fill does nothing: a pipe has no second opening.
func fill(*os.File) {}

// stopped is nil: there is no telling.
func stopped(int) error { return nil }
