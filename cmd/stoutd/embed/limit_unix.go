//go:build unix

package embed

import "syscall"

// openFileLimit returns how many files and connections the process may have open;
// false if the limit is unknown. The Go runtime has raised it as far as possible.
func openFileLimit() (uint64, bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), err == nil // the field is signed on FreeBSD
}
