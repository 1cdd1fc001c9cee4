package disk

import (
	"errors"
	"os"
	"syscall"
)

// datasync waits until what was written to a file is on the disk. Unlike
// File.Sync it does not write the time of the change, which would cost a write
// of its own.
func datasync(file *os.File) error {
	for {
		if err := syscall.Fdatasync(int(file.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
