package recorded

import (
	"io"
	"os"
	"path/filepath"

	"github.com/stoutlock/stout/test/crash/powerloss"
)

// These are the same as in package os, because they change nothing on a disk.
type (
	FileMode = os.FileMode
	FileInfo = os.FileInfo
	DirEntry = os.DirEntry
)

// The flags of OpenFile.
const (
	O_RDONLY = os.O_RDONLY
	O_RDWR   = os.O_RDWR
	O_WRONLY = os.O_WRONLY
	O_CREATE = os.O_CREATE
	O_TRUNC  = os.O_TRUNC
	O_EXCL   = os.O_EXCL
)

// As in package os.
var (
	ErrNotExist     = os.ErrNotExist
	ErrExist        = os.ErrExist
	ErrPermission   = os.ErrPermission
	Stderr          = os.Stderr
	Stat            = os.Stat
	Lstat           = os.Lstat
	ReadFile        = os.ReadFile
	ReadDir         = os.ReadDir
	Chmod           = os.Chmod
	SameFile        = os.SameFile
	IsExist         = os.IsExist
	IsNotExist      = os.IsNotExist
	NewSyscallError = os.NewSyscallError
	Exit            = os.Exit
)

// File is an *os.File that records its changes.
type File struct {
	*os.File
	mount *Mounted // nil if nothing is recorded
	id    powerloss.ID
}

// OpenFile is os.OpenFile.
func OpenFile(name string, flag int, perm FileMode) (*File, error) {
	f, isNew := &File{}, false
	err := named(name, func() (err error) {
		_, there := os.Lstat(name)
		isNew = os.IsNotExist(there)
		f.File, err = os.OpenFile(name, flag, perm)
		return err
	}, func(m *Mounted) {
		if isNew {
			m.made(name, false)
		}
		f.mount, f.id = m, m.id(name)
		if flag&os.O_TRUNC != 0 && !isNew {
			m.note(powerloss.Event{Kind: powerloss.Resize, Node: f.id})
		}
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Open is os.Open.
func Open(name string) (*File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// Create is os.Create.
func Create(name string) (*File, error) {
	return OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Write is os.File.Write, recorded.
func (f *File) Write(b []byte) (int, error) {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	f.changed(powerloss.Event{Kind: powerloss.Write, Off: at, Data: b})
	return f.File.Write(b)
}

// WriteString is os.File.WriteString, recorded.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// ReadFrom is os.File.ReadFrom, recorded.
func (f *File) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{f}, r) }

// WriteAt is os.File.WriteAt, recorded.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	f.changed(powerloss.Event{Kind: powerloss.Write, Off: off, Data: b})
	return f.File.WriteAt(b, off)
}

// Truncate is os.File.Truncate, recorded.
func (f *File) Truncate(size int64) error {
	f.changed(powerloss.Event{Kind: powerloss.Resize, Off: size})
	return f.File.Truncate(size)
}

// Datasync replaces a call of fdatasync.
func (f *File) Datasync() error { return f.Sync() }

// Mkdir is os.Mkdir.
func Mkdir(name string, perm FileMode) error {
	return named(name, func() error { return os.Mkdir(name, perm) }, func(m *Mounted) { m.made(name, true) })
}

// MkdirAll is os.MkdirAll.
func MkdirAll(name string, perm FileMode) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if above := filepath.Dir(name); above != name {
		if err := MkdirAll(above, perm); err != nil {
			return err
		}
	}
	if err := Mkdir(name, perm); !os.IsExist(err) {
		return err
	}
	return nil
}

// Rename is os.Rename.
func Rename(from, to string) error {
	return named(from, func() error { return os.Rename(from, to) }, func(m *Mounted) { m.renamed(from, to) })
}

// Remove is os.Remove.
func Remove(name string) error {
	return named(name, func() error { return os.Remove(name) }, func(m *Mounted) { m.removed(name) })
}

// RemoveAll is os.RemoveAll.
func RemoveAll(name string) error {
	if info, err := os.Lstat(name); err == nil && info.IsDir() {
		all, err := os.ReadDir(name)
		if err != nil && !os.IsNotExist(err) { // another goroutine removes it, too
			return err
		}
		for _, e := range all {
			if err := RemoveAll(filepath.Join(name, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := Remove(name); !os.IsNotExist(err) {
		return err
	}
	return nil
}
