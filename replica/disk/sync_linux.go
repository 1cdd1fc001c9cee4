package disk

import (
	"errors"
	"os"
	"syscall"

	"github.com/stoutlock/stout/internal/faultpoint"
)

// datasync waits until what was written to a file is on the disk. Unlike
// File.Sync it does not write the modification time, which would cost an extra
// write.
func datasync(file *os.File) error {
	if err := faultpoint.Err(faultpoint.DiskSync); err != nil {
		return err
	}
	for {
		if err := syscall.Fdatasync(int(file.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
