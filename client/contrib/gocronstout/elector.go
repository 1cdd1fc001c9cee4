package gocronstout

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/lockapi"
)

var _ gocron.Elector = (*Elector)(nil)

// Elector is a gocron.Elector.
type Elector struct {
	held  atomic.Pointer[client.Held]
	stop  context.CancelFunc
	ended chan error
}

// ErrNotLeader is the error of IsLeader at a scheduler that does not lead.
var ErrNotLeader = errors.New("gocronstout: another scheduler leads")

// NewElector returns an elector that waits for the lock at path, and leads while
// it holds the lock, until Close.
func NewElector(c *client.Client, path string, opts ...client.SessionOption) (*Elector, error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{stop: stop, ended: make(chan error, 1)}
	go func() {
		e.ended <- recipe.Hold(ctx, c, path, func(ctx context.Context, held *client.Held) error {
			e.held.Store(held)
			<-ctx.Done()
			e.held.CompareAndSwap(held, nil)
			return nil
		}, opts...)
	}()
	return e, nil
}

// IsLeader implements gocron.Elector. After the cell has refused the lock, it
// returns the refusal.
func (e *Elector) IsLeader(context.Context) error {
	if e.Held() != nil {
		return nil
	}
	select {
	case err := <-e.ended:
		e.ended <- err
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	default:
		return ErrNotLeader
	}
}

// Held returns the hold under which this scheduler leads, or nil.
func (e *Elector) Held() *client.Held {
	if held := e.held.Load(); held != nil && held.Err() == nil {
		return held
	}
	return nil
}

// Close ends the election at this scheduler, and returns when it does not lead.
func (e *Elector) Close() {
	e.stop()
	e.ended <- <-e.ended
}
