//go:build unix

package audit

import (
	"os"
	"syscall"
)

// tryLock locks a file for this process, or fails with EWOULDBLOCK if another
// process has it.
func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
