package readfile

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/stoutlock/stout/internal/wait"
)

// Patience is how long a read may take.
const Patience = 2 * time.Second

const (
	// freely is how many reads may hang at once. Beyond that, one more is tried
	// each turnEvery.
	freely    = 4
	turnEvery = time.Minute
	// mostHanging bounds the hanging reads. Each occupies a thread.
	mostHanging = 100
)

// Reader reads files. The zero value is ready. It is safe for concurrent use.
type Reader struct {
	// read replaces regular in tests.
	read func(name string, most int64) ([]byte, error)

	mu      sync.Mutex // guards the fields below
	hanging int        // reads that were given up and have not ended
	last    time.Time  // when the last read was given up
}

// Read returns the content of a regular file of at most that many bytes. It
// returns an error if the file does not answer within Patience, is larger, or
// is not a regular file.
func (r *Reader) Read(name string, most int64) ([]byte, error) {
	if !r.mayTry() {
		return nil, errHangs(name)
	}
	read := r.read
	if read == nil {
		read = regular
	}
	done := wait.Go(func() ([]byte, error) { return read(name, most) })
	select {
	case got := <-done:
		return got.Value, got.Err
	case <-time.After(Patience):
	}
	r.hangs(1)
	go func() {
		<-done
		r.hangs(-1)
	}()
	return nil, errHangs(name)
}

// mayTry reports whether another read may start beside the hanging ones.
func (r *Reader) mayTry() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hanging < freely || r.hanging < mostHanging && time.Since(r.last) >= turnEvery
}

func (r *Reader) hangs(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hanging += n; n > 0 {
		r.last = time.Now()
	}
}

func errHangs(name string) error {
	return fmt.Errorf("%s cannot be read: its file system does not answer within %v; the read is tried again", name, Patience)
}

// regular reads a regular file. Opening does not wait for a pipe's writer.
func regular(name string, most int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|withoutWaiting, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is %s and not a regular file, so it cannot be read repeatedly; give the name of a regular file", name, kind(info.Mode()))
	}
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return content, err
}

func kind(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&os.ModeNamedPipe != 0:
		return "a pipe"
	case m&os.ModeDevice != 0:
		return "a device"
	case m&os.ModeSocket != 0:
		return "a socket"
	}
	return "neither file nor directory"
}
