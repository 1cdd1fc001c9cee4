package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/internal/target"
)

// perSession is the number of queue positions of one session, below its limit.
const perSession = 1000

// longTTL is the ttl of sessions that need no keepalive during a load.
const longTTL = 30 * time.Minute

func openRaw(ctx context.Context, c *target.Raw, ttl time.Duration) (string, error) {
	var s lockapi.Session
	err := c.Call(ctx, http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: ttl.Milliseconds(), Name: "bench"}, &s)
	return s.ID, err
}

// openMany opens sessions without keepalives.
func openMany(ctx context.Context, c *target.Raw, n int) ([]string, error) {
	ids := make([]string, n)
	return ids, target.Each(n, func(i int) (err error) {
		ids[i], err = openRaw(ctx, c, longTTL)
		return err
	})
}

func closeMany(ctx context.Context, c *target.Raw, ids []string) error {
	return target.Each(len(ids), func(i int) error {
		return c.Call(ctx, http.MethodDelete, lockapi.RouteSessions+"/"+ids[i], nil, nil)
	})
}

// ask requests an exclusive lock, or a position in its queue.
func ask(ctx context.Context, c *target.Raw, path, session string, handle int, queue bool) error {
	r := lockapi.NewLockRequest(session)
	r.Handle, r.Queue = fmt.Sprint(handle), queue
	return c.Call(ctx, http.MethodPut, lockapi.RouteLocks+path, r, nil)
}

// expireIn is the time from the first opening until the sessions end: longer
// than their opening takes.
const expireIn = 40 * time.Second

// loadExpire opens n sessions that all end at one instant, each with a lock
// that another session waits for.
func loadExpire(ctx context.Context, o *overload) error {
	c := target.NewRaw(o.cell.Way())
	defer c.Close()
	waiters, err := openMany(ctx, c, (o.n+perSession-1)/perSession)
	if err != nil {
		return err
	}
	end := time.Now().Add(expireIn)
	path := func(i int) string { return fmt.Sprintf("/bench/expire/%d", i) }
	err = target.Each(o.n, func(i int) error {
		id, err := openRaw(ctx, c, max(time.Second, time.Until(end)))
		if err == nil {
			err = ask(ctx, c, path(i), id, 0, false)
		}
		if err == nil {
			err = ask(ctx, c, path(i), waiters[i/perSession], i, true)
		}
		return err
	})
	if err != nil {
		return err
	}
	if time.Now().After(end) {
		return fmt.Errorf("opening %[2]d sessions took more than %[1]v", expireIn, o.n)
	}
	count := func() (sessions, waiters int, err error) {
		view, err := o.cell.View(ctx)
		if err == nil && view.Sessions != nil {
			return *view.Sessions, *view.Waiters, nil
		}
		return -1, -1, err
	}
	full, _, err := count()
	if err != nil {
		return err
	}
	var first, last time.Time
	err = until(ctx, func() (bool, error) {
		sessions, waiters, err := count()
		if first.IsZero() && sessions >= 0 && sessions < full {
			first = time.Now()
		}
		last = time.Now()
		return waiters == 0, err
	})
	o.note("all expired, and their locks went to waiters, %.2f s after the first; the last one %.2f s after its ttl", last.Sub(first).Seconds(), last.Sub(end).Seconds())
	return errors.Join(err, closeMany(ctx, c, waiters))
}
