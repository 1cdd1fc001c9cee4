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

	"github.com/stoutlock/stout/lockapi"
)

// Partial is what the names of files begin with that are not whole backups yet.
const Partial = ".stout-backup-"

// Save writes a file whole or not at all, for its owner alone to read: it is on the
// disk when it gets its name. One that is there is replaced only where overwrite
// says so.
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
		err = free(name, overwrite) // which may have taken a while
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(name))
}

// free says why a name may not be taken.
func free(name string, overwrite bool) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is there and is no file", name)
	case !overwrite:
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	return nil
}

// syncDir has the names in a directory on the disk.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // which has no such thing
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// VerifyFile is Verify of a file.
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
