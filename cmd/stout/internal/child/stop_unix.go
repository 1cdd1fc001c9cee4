//go:build unix

package child

import (
	"os"

	"golang.org/x/sys/unix"
)

// MayStop reports whether a shell in the same session could continue a stopped
// program. A shell with job control starts each job in a group of its own. If this
// process is in the group of the session's leader, as with ssh -t or in a container,
// it must not stop, because no shell would continue it.
func MayStop() bool {
	own, err := unix.Getsid(0)
	parent, failed := unix.Getsid(os.Getppid())
	return err == nil && failed == nil && own == parent && unix.Getpgrp() != own
}
