package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/bench/internal/drive"
)

// perSession is how many places one session takes: below what one may have.
const perSession = 1000

// longTTL is that of sessions that nobody has to keep alive during a load.
const longTTL = 30 * time.Minute

// openRaw opens a session that nobody keeps alive.
func openRaw(ctx context.Context, c drive.Caller, ttl time.Duration) (string, error) {
	var s lockapi.Session
	err := c.Call(ctx, http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: ttl.Milliseconds(), Name: "bench"}, &s)
	return s.ID, err
}

// openMany opens sessions that nobody keeps alive.
func openMany(ctx context.Context, c drive.Caller, n int, ttl func() time.Duration) ([]string, error) {
	ids := make([]string, n)
	return ids, drive.Each(n, func(i int) (err error) {
		ids[i], err = openRaw(ctx, c, ttl())
		return err
	})
}

// ask is a request for an exclusive lock.
func ask(session string, handle int, wait time.Duration, queue bool) lockapi.LockRequest {
	r := lockapi.NewLockRequest(session)
	r.Handle, r.WaitMS, r.Queue = fmt.Sprint(handle), wait.Milliseconds(), queue
	return r
}

func releaseOf(path, session, handle string) string {
	return lockapi.RouteLocks + path + "?session=" + url.QueryEscape(session) + "&handle=" + url.QueryEscape(handle)
}

// until polls until done, or an error.
func until(ctx context.Context, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// mostHot bounds the calls that wait at once: each needs a connection, here and
// at the master.
const mostHot = 8_000

// Calls that wait are begun this many at a time: more than a listener's backlog
// at once would be told of the backlog, and not of the cell.
const (
	rampStep  = 50
	rampPause = 20 * time.Millisecond
)

// loadWaiters has n wait for one lock: the first half, as far as connections
// reach, with a call under way, the others with positions that are kept. Then
// the lock goes from hand to hand through those that wait, and the others
// leave.
func loadWaiters(ctx context.Context, o *overload) error {
	c := drive.NewCaller(o.cell.Way())
	defer c.Close()
	const path = "/bench/waiters"
	ids, err := openMany(ctx, c, 1+(o.n+perSession-1)/perSession, func() time.Duration { return longTTL })
	if err != nil {
		return err
	}
	holder, ids := ids[len(ids)-1], ids[:len(ids)-1]
	if err := c.Call(ctx, http.MethodPut, lockapi.RouteLocks+path, ask(holder, 0, 0, false), nil); err != nil {
		return err
	}
	began := time.Now()
	hot := min(o.n/2, mostHot)
	passed := make(chan error, hot)
	for i := range hot {
		go func() { passed <- waitAndPassOn(ctx, c, path, ids[i/perSession], i) }()
		if i%rampStep == 0 {
			if err := pause(ctx, rampPause); err != nil {
				return err
			}
		}
	}
	waiters := func(want int) func() (bool, error) {
		return func() (bool, error) {
			if len(passed) > 0 { // nothing was granted yet
				return false, fmt.Errorf("a call ended that was to wait: %w", <-passed)
			}
			var l lockapi.Lock
			err := c.Call(ctx, http.MethodGet, lockapi.RouteLocks+path, nil, &l)
			return l.Waiters >= want, err
		}
	}
	if err := until(ctx, waiters(hot)); err != nil {
		return err
	}
	err = drive.Each(o.n-hot, func(i int) error {
		i += hot
		return c.Call(ctx, http.MethodPut, lockapi.RouteLocks+path, ask(ids[i/perSession], i, 0, true), nil)
	})
	if err == nil {
		err = until(ctx, waiters(o.n))
	}
	if err != nil {
		return err
	}
	o.note("%d wait, %d of them with calls, after %.1f s", o.n, hot, time.Since(began).Seconds())
	if err := pause(ctx, calmTime); err != nil {
		return err
	}
	began = time.Now()
	if err := c.Call(ctx, http.MethodDelete, releaseOf(path, holder, "0"), nil, nil); err != nil {
		return err
	}
	for range hot {
		if err := <-passed; err != nil {
			return err
		}
	}
	o.note("%.0f hand-overs/s", float64(hot)/time.Since(began).Seconds())
	began = time.Now()
	err = drive.Each(len(ids), func(i int) error { return closeRaw(ctx, c, ids[i]) })
	o.note("the others left in %.1f s", time.Since(began).Seconds())
	return errors.Join(err, closeRaw(ctx, c, holder))
}

func waitAndPassOn(ctx context.Context, c drive.Caller, path, session string, handle int) error {
	if err := c.Call(ctx, http.MethodPut, lockapi.RouteLocks+path, ask(session, handle, lockapi.MaxWaitMS*time.Millisecond, false), nil); err != nil {
		return err
	}
	return c.Call(ctx, http.MethodDelete, releaseOf(path, session, fmt.Sprint(handle)), nil, nil)
}

func closeRaw(ctx context.Context, c drive.Caller, id string) error {
	return c.Call(ctx, http.MethodDelete, lockapi.RouteSessions+"/"+id, nil, nil)
}

// expireIn is when the sessions of an expiry are to end, from the first opening
// on: longer than it takes to open them.
const expireIn = 40 * time.Second

// loadExpire opens n sessions that all end at one instant, each with a lock for
// which another session waits.
func loadExpire(ctx context.Context, o *overload) error {
	c := drive.NewCaller(o.cell.Way())
	defer c.Close()
	heirs, err := openMany(ctx, c, (o.n+perSession-1)/perSession, func() time.Duration { return longTTL })
	if err != nil {
		return err
	}
	end := time.Now().Add(expireIn)
	path := func(i int) string { return fmt.Sprintf("%s/bench/expire/%d", lockapi.RouteLocks, i) }
	err = drive.Each(o.n, func(i int) error {
		id, err := openRaw(ctx, c, max(time.Second, time.Until(end)))
		if err == nil {
			err = c.Call(ctx, http.MethodPut, path(i), ask(id, 0, 0, false), nil)
		}
		if err == nil {
			err = c.Call(ctx, http.MethodPut, path(i), ask(heirs[i/perSession], i, 0, true), nil)
		}
		return err
	})
	if err != nil {
		return err
	}
	if time.Now().After(end) {
		return fmt.Errorf("it took more than %v to open %d sessions", expireIn, o.n)
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
	o.note("all expired, and their locks handed on, %.2f s after the first; the last %.2f s after its ttl", last.Sub(first).Seconds(), last.Sub(end).Seconds())
	return errors.Join(err, drive.Each(len(heirs), func(i int) error { return closeRaw(ctx, c, heirs[i]) }))
}

// loadReturn has n sessions of the SDK, each with a lock, and kills the master.
func loadReturn(ctx context.Context, o *overload) error {
	sdk, err := o.cell.Way().SDK()
	if err != nil {
		return err
	}
	defer sdk.Close()
	sessions := make([]*client.Session, o.n)
	defer func() {
		_ = drive.Each(o.n, func(i int) error {
			if sessions[i] != nil {
				_ = sessions[i].Close(ctx)
			}
			return nil
		})
	}()
	err = drive.Each(o.n, func(i int) (err error) {
		if sessions[i], err = sdk.NewSession(ctx, client.WithTTL(o.ttl)); err == nil {
			_, err = sessions[i].TryLock(ctx, fmt.Sprintf("/bench/return/%d", i))
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := pause(ctx, o.ttl); err != nil { // the keepalives are spread as they would be
		return err
	}
	before, err := o.epoch(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	restore, err := o.cell.KillMaster(ctx)
	if err != nil {
		return err
	}
	after := before
	if err := until(ctx, func() (bool, error) { after, err = o.epoch(ctx); return after != before, err }); err != nil {
		return err
	}
	elected := time.Since(began)
	var all sync.WaitGroup
	var mu sync.Mutex
	var lost int
	for _, s := range sessions {
		all.Go(func() {
			err := until(ctx, func() (bool, error) { return s.Epoch() >= after && s.State() == client.Safe, s.Err() })
			if err != nil {
				mu.Lock()
				lost++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	o.note("a new master after %.2f s, all sessions back after %.2f s, %d lost", elected.Seconds(), time.Since(began).Seconds(), lost)
	return restore(ctx)
}
