//go:build unix

package embed

import "syscall"

// openFileLimit is how many files and connections the process may have open;
// false where that cannot be told. The Go runtime has raised it as far as it
// may.
func openFileLimit() (uint64, bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), err == nil // a signed number on FreeBSD
}
