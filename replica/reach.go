package replica

import (
	"context"
	"errors"
	"time"
)

// nextAddress is how long an address has to answer before the next is tried
// beside it.
const nextAddress = 150 * time.Millisecond

// reach tries one address after the other, the next one as soon as those before
// have failed or have taken too long, and returns what the first came to that did
// not fail. What a later one comes to is discarded; discard may be nil. There is
// at least one address.
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
