package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/DeRuina/timberjack"
)

// sink is the destination of lines. One goroutine uses it.
type sink interface {
	io.WriteCloser
	// Reopen opens the destination again by its name. If that fails, the open
	// one stays in use.
	Reopen() error
	// EndsLines reports whether Reopen ends a line that was written in part.
	EndsLines() bool
}

const fileMode = 0o600

func openSink(o *Options) (sink, error) {
	if o.Path == "-" {
		return writer{o.Stdout}, nil
	}
	info, err := os.Stat(o.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir := filepath.Dir(o.Path)
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("there is no directory %q: create it (mkdir -m 700 %s) so that stoutd's user can write there", dir, dir)
		}
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("it is a directory; name the file")
	case info.Mode()&fs.ModeSocket != 0:
		return nil, errors.New("it is a socket, which cannot be opened; write - for standard output")
	case !info.Mode().IsRegular():
		if o.MaxBytes > 0 {
			return nil, errors.New("it is not a regular file and cannot be rotated: leave audit-max-size out")
		}
		return openStream(o.Path, info.Mode())
	}
	lock, err := lockFile(o.Path)
	if err != nil {
		return nil, err
	}
	to, err := openRegular(o)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &lockedSink{to, lock}, nil
}

func openRegular(o *Options) (sink, error) {
	f := &file{path: o.Path, flag: os.O_CREATE}
	if err := f.Reopen(); err != nil {
		return nil, err
	}
	if o.MaxBytes == 0 {
		return f, nil
	}
	if err := f.Close(); err != nil { // it was opened only as a test
		return nil, err
	}
	return newRotating(o), nil
}

// lockFile reserves the file for this process. If two replicas wrote and
// rotated one file, both would lose lines. The lock is a separate file, because
// rotation replaces the log.
func lockFile(path string) (*os.File, error) {
	if whole, err := filepath.EvalSymlinks(path); err == nil {
		path = whole
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	switch err := tryLock(lock); {
	case err == nil:
		return lock, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = errors.New("another process writes to it: give each replica its own file")
		return nil, errors.Join(err, lock.Close())
	default:
		return nil, errors.Join(fmt.Errorf("%s: %w", path+".lock", err), lock.Close())
	}
}

// lockedSink releases the lock when the file is closed.
type lockedSink struct {
	sink
	lock *os.File
}

func (c *lockedSink) Close() error { return errors.Join(c.sink.Close(), c.lock.Close()) }

// file is a file, named pipe or device. It is open, or the next write opens it.
type file struct {
	path   string
	flag   int
	stream bool // after a failure the other end may be a new one
	open   *os.File
}

// openStream opens a named pipe or a device. A pipe without a reader is tried
// again with each write, because the reader may start later.
func openStream(path string, mode fs.FileMode) (sink, error) {
	f := &file{path: path, stream: true}
	if mode&fs.ModeNamedPipe != 0 {
		f.flag = syscall.O_NONBLOCK // it would wait for a reader
	}
	if err := f.Reopen(); err != nil && !errors.Is(err, syscall.ENXIO) {
		return nil, err
	}
	return f, nil
}

func (f *file) Reopen() error {
	next, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|f.flag, fileMode)
	if err != nil {
		return err
	}
	if !f.stream {
		if err := endLine(next, f.path); err != nil {
			_ = next.Close()
			return err
		}
	}
	if f.open != nil {
		_ = f.open.Close()
	}
	f.open = next
	return nil
}

// endLine ends a line that an earlier process left unfinished. If the disk is
// full, the next line reports that.
func endLine(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	r, err := os.Open(path)
	if err != nil {
		return nil // it may be write-only
	}
	defer r.Close()
	last := []byte{0}
	if _, err := r.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
		_, _ = f.Write([]byte{'\n'})
	}
	return nil
}

func (f *file) Write(p []byte) (int, error) {
	if f.open == nil {
		if err := f.Reopen(); err != nil {
			return 0, err
		}
	}
	n, err := f.open.Write(p)
	if err != nil && f.stream {
		_ = f.open.Close()
		f.open = nil
	}
	return n, err
}

func (f *file) EndsLines() bool { return !f.stream }

func (f *file) Close() error {
	if f.open == nil {
		return nil
	}
	return f.open.Close()
}

// rotating is a file that is rotated when it has grown to a size.
type rotating struct {
	of *Options
	to *timberjack.Logger
}

func newRotating(o *Options) *rotating {
	r := &rotating{of: o}
	r.begin()
	return r
}

func (r *rotating) begin() {
	r.to = &timberjack.Logger{Filename: r.of.Path, MaxSize: int(r.of.MaxBytes >> 20), MaxBackups: r.of.Keep, FileMode: fileMode}
}

func (r *rotating) Write(p []byte) (int, error) { return r.to.Write(p) }

// Reopen makes the next write open the file by its name.
func (r *rotating) Reopen() error {
	err := r.to.Close()
	r.begin()
	return err
}

func (r *rotating) EndsLines() bool { return false }

func (r *rotating) Close() error { return r.to.Close() }

// writer is an open writer, which is not closed.
type writer struct{ io.Writer }

func (writer) Reopen() error   { return nil }
func (writer) EndsLines() bool { return false }
func (writer) Close() error    { return nil }
