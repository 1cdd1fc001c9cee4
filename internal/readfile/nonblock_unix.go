//go:build unix

package readfile

import "syscall"

// withoutWaiting has the opening of a pipe return at once.
const withoutWaiting = syscall.O_NONBLOCK
