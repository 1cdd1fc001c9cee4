package replica

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// A name is on the disk when the directory that it stands in was synced, whatever was
// synced of the file. And a process that is killed before that leaves names which the
// next one sees, as if they were there for good, until the power is lost. So each start
// syncs the directories that it finds, before anything rests on what is in them.

// How files and directories are synced. Tests look at what is, and when.
var (
	syncFile = (*os.File).Sync
	syncData = datasync
)

// makeDir makes a directory and those above it, for nobody else to read, where they
// are not there. They are on the disk when it returns.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for {
		err := syncDir(dir)
		above := filepath.Dir(dir)
		switch {
		case errors.Is(err, os.ErrPermission), errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EINVAL):
			return nil // it is the system's, which had it before
		case err != nil || above == dir:
			return err
		}
		dir = above
	}
}

// syncDir waits until the names in a directory are on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncFile(d), d.Close())
}

// writeDurably puts a file in place whole or not at all, and on the disk.
func writeDurably(name string, data []byte) error {
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, syncFile(f), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}
