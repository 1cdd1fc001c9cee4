package server

import (
	"context"
	"net/http"

	"github.com/stoutlock/stout/lockapi"
)

func acquire(x *exchange) error {
	path, err := x.lockPath()
	if err != nil {
		return err
	}
	req := lockapi.NewLockRequest("")
	if err := x.request(&req); err != nil {
		return err
	}
	return x.dispatch(task{wait: ms(req.WaitMS), run: func(ctx context.Context) (int, any, error) {
		g, err := x.master.Acquire(ctx, path, req)
		if g.State == lockapi.StateQueued {
			return http.StatusAccepted, g, err
		}
		return http.StatusOK, g, err
	}})
}

func release(x *exchange) error {
	path, err := x.lockPath()
	if err != nil {
		return err
	}
	q, err := x.query(paramSession, paramHandle, paramToken)
	if err != nil {
		return err
	}
	session, handle := q[paramSession], q[paramHandle]
	if session == "" {
		return lockapi.Invalid(paramSession, "parameter session is required: the id of the session that holds or waits")
	}
	if err := lockapi.ValidateHandle(handle); err != nil {
		return err
	}
	token, err := q.token()
	if err != nil {
		return err
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		r, err := x.master.Release(ctx, path, session, handle, token)
		return http.StatusOK, r, err
	}})
}

func readLock(x *exchange) error {
	path, err := x.lockPath()
	if err != nil {
		return err
	}
	q, err := x.query(paramWaiters, paramConsistency)
	if err != nil {
		return err
	}
	waiters, err := q.waiters()
	if err != nil {
		return err
	}
	long := waiters > lockapi.DefaultListLimit || x.master.CrowdedLock(path)
	return x.dispatchRead(q, long, func(ctx context.Context, stale bool) (any, error) {
		return x.master.Lock(ctx, path, waiters, stale)
	})
}

func listLocks(x *exchange) error {
	q, err := x.query(paramPrefix, paramAfter, paramLimit, paramConsistency)
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	return x.readList(q, func(ctx context.Context, stale bool) (any, error) {
		return x.master.Locks(ctx, q[paramPrefix], q[paramAfter], limit, stale)
	})
}

func checkSequencer(x *exchange) error {
	q, err := x.query(paramValue, paramConsistency)
	if err != nil {
		return err
	}
	value, given := q[paramValue]
	if !given {
		return lockapi.Invalid(paramValue, "parameter value is required: a sequencer, mode:token:path")
	}
	sequencer, err := lockapi.ParseSequencer(value)
	if err != nil {
		return err
	}
	return x.read(q, func(ctx context.Context, stale bool) (any, error) {
		return x.master.CheckSequencer(ctx, sequencer, stale)
	})
}

// lockPath is the path of the lock that the URL names.
func (x *exchange) lockPath() (string, error) {
	return lockapi.UnescapePath(x.c.Param("path"))
}
