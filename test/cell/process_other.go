//go:build !linux

package cell

import (
	"os"
	"syscall"
)

// childAttributes puts a replica into a separate process group, so that Ctrl-C
// reaches only the program that runs the cell.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// fill does nothing: here a pipe cannot be opened a second time.
func fill(*os.File) {}

// stopped returns nil: this system does not show the state of threads.
func stopped(int) error { return nil }
