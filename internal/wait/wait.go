// Package wait waits for functions that know no context: an outcome of Raft's,
// a read of a file that may never answer. Each runs in a goroutine of its own,
// which ends when the function does, whether or not anybody waits for it still.
package wait

import "context"

// Result is what a function came to.
type Result[T any] struct {
	Value T
	Err   error
}

// Go calls f. Its result is told once.
func Go[T any](f func() (T, error)) <-chan Result[T] {
	done := make(chan Result[T], 1)
	go func() {
		value, err := f()
		done <- Result[T]{value, err}
	}()
	return done
}

// Err is Go for a function that has an error only.
func Err(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// Get is f's result, or the context's error where that ends first: f goes on by
// itself then.
func Get[T any](ctx context.Context, f func() (T, error)) (T, error) {
	select {
	case r := <-Go(f):
		return r.Value, r.Err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// Do is Get for a function that has an error only.
func Do(ctx context.Context, f func() error) error {
	select {
	case err := <-Err(f):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
