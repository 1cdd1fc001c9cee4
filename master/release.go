package master

import (
	"context"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/rights"
	"github.com/stoutlock/stout/replica/state"
)

// ReleaseLock ends the hold or the wait of (session, handle) at path; with a
// token other than 0 it ends only that grant. If there is nothing to release,
// it makes no log entry.
func (m *Master) ReleaseLock(_ context.Context, by *Caller, req *lockapi.ReleaseLock) (lockapi.Released, error) {
	return serve(m, by, func(o *office) (lockapi.Released, error) {
		op := &state.Release{Session: req.Session, Path: req.Path, Handle: req.Handle, Token: req.Token, Forced: req.Forced && o.log.State().RecordsEndings()}
		if r, ok := o.nothingToRelease(op); ok {
			return released(op, r, nil)
		}
		r, err := o.propose(by, op)
		return released(op, r, err)
	})
}

func released(op *state.Release, r state.Result, err error) (lockapi.Released, error) {
	switch {
	case err != nil:
		return lockapi.Released{}, err
	case r == state.NoSession:
		return lockapi.Released{}, rights.ErrNoSession(op.Session)
	}
	return lockapi.Released{Released: r == state.Done}, nil
}

// nothingToRelease answers from memory if there is nothing to release. An
// acquire under way may be about to change that; then the log decides, in its
// order.
func (o *office) nothingToRelease(op *state.Release) (state.Result, bool) {
	if o.busy(state.HandleKey{Session: op.Session, Path: op.Path, Handle: op.Handle}) {
		return nil, false
	}
	return o.fromMemory(op)
}
