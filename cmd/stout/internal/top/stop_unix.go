//go:build unix

package top

import (
	"os"

	"golang.org/x/sys/unix"
)

// mayStop reports whether a shell in the same session could continue a stopped
// program. If top is the only program on a terminal, as with ssh -t, it is not
// stopped, because no shell would continue it.
func mayStop() bool {
	parent := os.Getppid()
	session, err := unix.Getsid(parent)
	mine, failed := unix.Getsid(0)
	if err != nil || failed != nil || session != mine {
		return false
	}
	group, err := unix.Getpgid(parent)
	return err == nil && (group != unix.Getpgrp() || parent != session)
}
