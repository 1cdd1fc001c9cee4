//go:build linux || darwin || freebsd

package embed

import "golang.org/x/sys/unix"

// freeBytes is what the file system of a directory has left for this process.
func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return uint64(max(s.Bavail, 0)) * uint64(s.Bsize), nil // signed numbers on some systems
}
