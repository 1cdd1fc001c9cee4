package cell

import "syscall"

// childAttributes puts a replica in a process group of its own, so that a
// Ctrl-C reaches only the program that runs the cell, and has the kernel kill
// it when the thread that started it ends. Starter keeps that thread.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
