package backup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/stoutlock/stout/lockapi"
)

// Partial begins the names of files that are not complete backups yet.
const Partial = ".stout-backup-"

// Save writes a file completely or not at all, readable only by its owner. The
// file is on disk before it gets its name. An existing file is replaced only if
// overwrite is set.
func Save(name string, overwrite bool, write func(w io.Writer) error) error {
	if err := free(name, overwrite); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), Partial+filepath.Base(name)+"-*") // with mode 0600
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 256<<10)
	err = write(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = free(name, overwrite) // the write may have taken a while
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	err = syncDir(filepath.Dir(name))
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil // some network file systems cannot sync a directory; the backup is there
	}
	return err
}

// free returns an error if a name must not be used.
func free(name string, overwrite bool) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s exists and is not a regular file", name)
	case !overwrite:
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync a directory
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// VerifyFile verifies a file as Verify does.
func VerifyFile(name string) (lockapi.BackupHeader, error) {
	f, err := os.Open(name)
	if err != nil {
		return lockapi.BackupHeader{}, err
	}
	defer f.Close()
	h, err := Verify(f)
	if err != nil {
		return h, fmt.Errorf("%s: %w", name, err)
	}
	return h, nil
}
