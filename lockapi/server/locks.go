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
	session, handle := x.query.of(paramSession), x.query.of(paramHandle)
	if err := lockapi.ValidateHandle(handle); err != nil {
		return err
	}
	token, err := x.query.token()
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
	waiters, err := x.query.waiters()
	if err != nil {
		return err
	}
	long := waiters > lockapi.DefaultListLimit || x.master.CrowdedLock(path)
	return x.dispatchRead(long, func(ctx context.Context, stale bool) (any, error) {
		return x.master.Lock(ctx, path, waiters, stale)
	})
}

func listLocks(x *exchange) error {
	limit, err := x.query.limit()
	if err != nil {
		return err
	}
	return x.readList(func(ctx context.Context, stale bool) (any, error) {
		return x.master.Locks(ctx, x.query.of(paramPrefix), x.query.of(paramAfter), limit, stale)
	})
}

func checkSequencer(x *exchange) error {
	sequencer, err := lockapi.ParseSequencer(x.query.of(paramValue))
	if err != nil {
		return err
	}
	return x.read(func(ctx context.Context, stale bool) (any, error) {
		return x.master.CheckSequencer(ctx, sequencer, stale)
	})
}

// lockPath is the path of the lock that the URL names.
func (x *exchange) lockPath() (string, error) {
	return lockapi.UnescapePath(x.c.Param("path"))
}
