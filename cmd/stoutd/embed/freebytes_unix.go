//go:build linux || darwin || freebsd

package embed

import "golang.org/x/sys/unix"

// freeBytes returns the bytes free for this process on the file system of a directory.
func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return uint64(max(s.Bavail, 0)) * uint64(s.Bsize), nil // the fields are signed on some systems
}
