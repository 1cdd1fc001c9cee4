//go:build unix

package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// MayStop reports whether a shell in the same session could continue a stopped
// program. If this process is the only one on a terminal, as with ssh -t, it must
// not stop, because no shell would continue it.
func MayStop() bool {
	parent := os.Getppid()
	session, err := unix.Getsid(parent)
	mine, failed := unix.Getsid(0)
	if err != nil || failed != nil || session != mine {
		return false
	}
	group, err := unix.Getpgid(parent)
	return err == nil && (group != unix.Getpgrp() || parent != session)
}
