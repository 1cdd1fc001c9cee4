//go:build !linux

package replica

import "os"

// syncData waits until what was written to a file is on the disk.
func syncData(file *os.File) error { return file.Sync() }
