package server

import (
	"context"
	"net/http"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
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
		g, err := x.master.Acquire(ctx, master.AcquireRequest{Caller: x.callerFor(req.Session), Path: path, LockRequest: req})
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
	session := x.query.of(paramSession)
	req := master.ReleaseRequest{Caller: x.callerAbout(session, true), Path: path, Session: session, Handle: x.query.of(paramHandle)}
	if err := lockapi.ValidateHandle(req.Handle); err != nil {
		return err
	}
	if req.Token, err = x.query.token(); err != nil {
		return err
	}
	if req.Forced, err = x.query.flag(paramByForce); err != nil {
		return err
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		r, err := x.master.Release(ctx, req)
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
	return x.dispatchRead(long, func(ctx context.Context, r master.Read) (any, error) {
		return x.master.Lock(ctx, master.LockQuery{Read: r, Path: path, Waiters: waiters})
	})
}

func listLocks(x *exchange) error {
	limit, err := x.query.limit()
	if err != nil {
		return err
	}
	prefix, err := x.query.prefix()
	if err != nil {
		return err
	}
	x.node = top(prefix)
	return x.readList(func(ctx context.Context, r master.Read) (any, error) {
		return x.master.Locks(ctx, master.LocksQuery{Read: r, Prefix: prefix, After: x.query.of(paramAfter), Limit: limit})
	})
}

func checkSequencer(x *exchange) error {
	sequencer, err := lockapi.ParseSequencer(x.query.of(paramValue))
	if err != nil {
		return err
	}
	x.node = sequencer.Path
	return x.read(func(ctx context.Context, r master.Read) (any, error) {
		return x.master.CheckSequencer(ctx, master.SequencerQuery{Read: r, Sequencer: sequencer})
	})
}

// lockPath is the path of the lock that the URL names.
func (x *exchange) lockPath() (path string, err error) {
	x.node, err = lockapi.UnescapePath(x.c.Param("path"))
	return x.node, err
}
