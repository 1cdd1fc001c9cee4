// Package wait waits for functions that take no context, such as a future of
// Raft or a read of a file that may never answer. Each function runs in a
// goroutine of its own. The goroutine ends with the function, even if the
// caller has stopped waiting.
package wait

import "context"

// Result is the result of a function.
type Result[T any] struct {
	Value T
	Err   error
}

// Go calls f. The channel receives its result once.
func Go[T any](f func() (T, error)) <-chan Result[T] {
	done := make(chan Result[T], 1)
	go func() {
		value, err := f()
		done <- Result[T]{value, err}
	}()
	return done
}

// Err is Go for a function that returns only an error.
func Err(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// Get returns the result of f, or the context's error if the context ends
// first. In that case f continues in the background.
func Get[T any](ctx context.Context, f func() (T, error)) (T, error) {
	select {
	case r := <-Go(f):
		return r.Value, r.Err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// Do is Get for a function that returns only an error.
func Do(ctx context.Context, f func() error) error {
	select {
	case err := <-Err(f):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
