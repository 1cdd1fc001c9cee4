package disk

import (
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stoutlock/stout/internal/faultpoint"
)

// How files and directories are synced: completely, and without the file's
// time. Tests check what is synced, and when.
var (
	SyncFile = syncFile
	SyncData = datasync
)

// ErrDamaged reports that the contents read differ from the contents written.
var ErrDamaged = errors.New("it does not match its checksum")

// Castagnoli is the polynomial of all checksums on the disk.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Cure describes what to do about a damaged data directory. The directory is
// evidence, and its votes and entries are lost.
const Cure = "keep the directory for analysis, and restart the replica with an empty one as docs/operations.md describes"

func syncFile(f *os.File) error {
	if err := faultpoint.Err(faultpoint.DiskSync); err != nil {
		return err
	}
	return f.Sync()
}

// WriteAt writes data at an offset of a file.
func WriteAt(f *os.File, data []byte, at int64) error {
	if err := faultpoint.Err(faultpoint.DiskWrite); err != nil {
		return err
	}
	_, err := f.WriteAt(data, at)
	return err
}

// MakeDir creates a directory and its missing parents, unreadable for other
// users. They are on the disk when it returns.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for {
		err := SyncDir(dir)
		above := filepath.Dir(dir)
		switch {
		case errors.Is(err, os.ErrPermission), errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EINVAL):
			return nil // the system had it before
		case err != nil || above == dir:
			return err
		}
		dir = above
	}
}

// SyncDir waits until the names in a directory are on the disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(SyncFile(d), d.Close())
}

// WriteFile puts a file in place completely or not at all, and on the disk.
func WriteFile(name string, data []byte) error {
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = WriteAt(f, data, 0)
	err = errors.Join(err, SyncFile(f), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(name))
}
