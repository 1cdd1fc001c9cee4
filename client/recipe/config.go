package recipe

import (
	"context"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
)

// Config is a value that follows a file. It is safe for concurrent use.
type Config[T any] struct {
	parse func([]byte) (T, error)

	mu       sync.Mutex // guards what follows
	value    T
	revision uint64 // of the file that value is of
	err      error
	read     uint64        // the revision of the file that was read last, 0 of none
	current  bool          // and that is all that is known to have happened
	changed  chan struct{} // closed at the next change of value or err
}

// FollowConfig reads the file at path and follows it until ctx ends. parse makes
// a value of the file's content, or says what is wrong with it: then the last
// good value is kept, as it is where the file is deleted. Until there is a good
// one the value is initial. parse must not call the Config.
//
// It returns when the file has been read, or its absence; an error is the
// cell's, or ctx's.
func FollowConfig[T any](ctx context.Context, c *client.Client, path string, initial T, parse func([]byte) (T, error)) (*Config[T], error) {
	v := &Config[T]{parse: parse, value: initial, changed: make(chan struct{})}
	file, _, err := find(ctx, c, path)
	if err != nil {
		return nil, err
	}
	v.set(file)
	go v.follow(ctx, c, path)
	return v, nil
}

// again is how long a cell that refuses to tell of the file is left alone.
const again = time.Second

// follow takes every change. What ends the events, but for ctx, is kept as the
// error, and tried again: a value is of use while it can't be refreshed.
func (v *Config[T]) follow(ctx context.Context, c *client.Client, path string) {
	for ctx.Err() == nil {
		for file, err := range present(ctx, c, path) {
			if err != nil {
				v.lose(err)
				break
			}
			v.set(file)
		}
		pause(ctx, again)
	}
}

// set makes a value of a file, nil where there is none.
func (v *Config[T]) set(file *client.File) {
	v.mu.Lock()
	defer v.mu.Unlock()
	revision := uint64(0)
	if file != nil {
		revision = file.Revision
	}
	if v.current && v.read == revision {
		return
	}
	v.read, v.current = revision, true
	defer v.notify()
	if file == nil {
		v.err = client.ErrNotFound
		return
	}
	value, err := v.parse(file.Content)
	if v.err = err; err == nil {
		v.value, v.revision = value, revision
	}
}

// lose notes why the cell does not tell of the file.
func (v *Config[T]) lose(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err, v.current = err, false
	v.notify()
}

// notify wakes whoever waits for a change. mu is held.
func (v *Config[T]) notify() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// Value is the last good value.
func (v *Config[T]) Value() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value
}

// Revision is that of the file whose value Value is; 0 of the initial one.
func (v *Config[T]) Revision() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.revision
}

// Err is why Value is not what the file says now: what parse said of it,
// client.ErrNotFound where there is none, or why the cell does not tell. It is
// nil where it is.
func (v *Config[T]) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// Changed returns a channel that is closed at the next change of Value or Err.
// Take the channel first and the value next, so that none is missed.
func (v *Config[T]) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}
