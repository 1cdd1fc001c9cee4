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
		// An acquire under way may be about to change that there is nothing to
		// release; then the log decides, in its order.
		var r state.Result
		ok := !o.busy(state.HandleKey{Session: op.Session, Path: op.Path, Handle: op.Handle})
		if ok {
			r, ok = o.fromMemory(op)
		}
		if !ok {
			var err error
			if r, err = o.propose(by, op); err != nil {
				return lockapi.Released{}, err
			}
		}
		if r == state.NoSession {
			return lockapi.Released{}, rights.ErrNoSession(op.Session)
		}
		return lockapi.Released{Released: r == state.Done}, nil
	})
}
