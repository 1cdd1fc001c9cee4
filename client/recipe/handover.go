package recipe

import (
	"context"
	"errors"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// ErrHandover ends a term that is handed over to a candidate of higher
// priority.
var ErrHandover = errors.New("recipe: the leader hands over to a candidate of higher priority")

// AwaitPriority waits until the next waiter for a lock has a higher priority than
// the given one: see client.Priority. The holder can then end its work and
// unlock, and that waiter gets the lock in the same step. Between them there is
// no moment without a holder and none with two. It returns nil then, and
// otherwise the error of ctx.
func AwaitPriority(ctx context.Context, c *client.Client, path string, priority int) error {
	for ; ctx.Err() == nil; pause(ctx, again) {
		after, err := c.Revision(ctx)
		for err == nil {
			var lock lockapi.Lock
			if lock, err = c.ReadLock(ctx, path, client.Waiters(1)); err != nil {
				break
			}
			if hasPriority(&lock, priority) {
				return nil
			}
			after, err = nextWaiter(ctx, c, path, after, len(lock.Queue) > 0 && lock.Queue[0].Set != 0)
		}
	}
	return context.Cause(ctx)
}

// hasPriority reports whether the next waiter for a lock has a higher priority.
// A waiter for several locks does not count: it may not get the others.
func hasPriority(lock *lockapi.Lock, priority int) bool {
	return len(lock.Queue) > 0 && lock.Queue[0].Priority > int64(priority) && lock.Queue[0].Set == 0
}

// nextWaiter waits until a waiter joins a lock's queue as the next one, and
// returns the revision of that change. Behind a waiter for several locks another
// one may become the next without an event: then it returns soon.
func nextWaiter(ctx context.Context, c *client.Client, path string, after uint64, behindSet bool) (uint64, error) {
	watching := ctx
	if behindSet {
		bounded, cancel := context.WithTimeout(ctx, askAgain)
		defer cancel()
		watching = bounded
	}
	for e, err := range c.Watch(watching, after, client.OnPath(path), client.OfType(lockapi.EventLockContended)) {
		switch {
		case watching.Err() != nil && ctx.Err() == nil:
			return after, nil
		case err != nil:
			return 0, err
		case e.Compacted != nil:
			return e.Compacted.Revision, nil
		case e.Type == lockapi.EventLockContended:
			return e.Revision, nil
		}
	}
	if ctx.Err() == nil {
		return after, nil
	}
	return 0, context.Cause(ctx)
}
