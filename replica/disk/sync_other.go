//go:build !linux

package disk

import "os"

// datasync waits until what was written to a file is on the disk.
func datasync(file *os.File) error { return syncFile(file) }
