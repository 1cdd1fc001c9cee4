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
	revision uint64 // of the file with that value
	err      error
	read     uint64        // the revision of the last file read, 0 for no file
	current  bool          // no error since that read
	changed  chan struct{} // closed at the next change of value or err
}

// FollowConfig reads the file at path and follows it until ctx ends. parse
// makes a value of the file's content, or returns an error. The last good value
// is kept then, and also when the file is deleted. The value is initial until
// there is a good one. parse must not call the Config.
//
// It returns when the file, or its absence, has been read; an error is the
// cell's or ctx's.
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

// again is the pause before a retry after an error.
const again = time.Second

// follow receives every change. If the events end, but not because of ctx, it
// records the error and retries: a value is useful even while it cannot be
// refreshed.
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

// set makes a value of a file, nil if it does not exist.
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

// lose records why the events ended.
func (v *Config[T]) lose(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err, v.current = err, false
	v.notify()
}

// notify wakes callers that wait for a change. mu is held.
func (v *Config[T]) notify() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// Value returns the last good value.
func (v *Config[T]) Value() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value
}

// Revision returns the revision of the file behind Value; 0 for the initial
// value.
func (v *Config[T]) Revision() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.revision
}

// Err returns why Value is not the file's present content: parse's error,
// client.ErrNotFound if there is no file, or the cell's refusal. While no replica
// can be reached it keeps its value, also nil.
func (v *Config[T]) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// Changed returns a channel that is closed at the next change of Value or Err.
// Take the channel first and the value next, so that no change is missed.
func (v *Config[T]) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}
