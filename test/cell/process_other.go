//go:build !linux

package cell

import "syscall"

// childAttributes puts a replica in a process group of its own, so that a
// Ctrl-C reaches only the program that runs the cell.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// stopped is nil: there is no telling.
func stopped(int) error { return nil }
