//go:build unix

package datadir

import "syscall"

// umask sets the process's, and returns what it was.
func umask(mask int) int { return syscall.Umask(mask) }
