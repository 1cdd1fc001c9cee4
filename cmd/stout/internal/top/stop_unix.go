//go:build unix

package top

import (
	"os"

	"golang.org/x/sys/unix"
)

// mayStop says whether somebody is there who would let a stopped program go on: a
// shell in the same session. Where top is all that runs on a terminal, as with
// ssh -t, the system lets it not stop, and nobody would continue it.
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
