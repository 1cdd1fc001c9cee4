package replica

import (
	"context"
	"errors"
	"time"
)

// nextAddress is how long an address may take to answer before the next is
// tried in parallel.
const nextAddress = 150 * time.Millisecond

// reach tries the addresses in order and returns the first success. It tries
// the next address as soon as those before have failed or have taken too long.
// It passes later successes to discard, which may be nil. There is at least one
// address.
func reach[T any](ctx context.Context, addresses []string, try func(context.Context, string) (T, error), discard func(T)) (T, error) {
	if len(addresses) == 1 {
		return try(ctx, addresses[0])
	}
	type outcome struct {
		got T
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes := make(chan outcome)
	over := make(chan struct{})
	defer close(over)
	next := time.NewTimer(0)
	defer next.Stop()
	var errs []error
	for rest := addresses; ; {
		select {
		case <-next.C:
			if len(rest) == 0 {
				continue
			}
			address := rest[0]
			rest = rest[1:]
			next.Reset(nextAddress)
			go func() {
				got, err := try(ctx, address)
				select {
				case outcomes <- outcome{got, err}:
				case <-over:
					if err == nil && discard != nil {
						discard(got)
					}
				}
			}()
		case o := <-outcomes:
			if o.err == nil {
				return o.got, nil
			}
			if errs = append(errs, o.err); len(errs) == len(addresses) {
				var none T
				return none, errors.Join(errs...)
			}
			next.Reset(0)
		}
	}
}
