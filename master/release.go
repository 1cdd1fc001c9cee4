package master

import (
	"context"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// Release ends the hold or the wait of (session, handle) at path; with a token
// other than 0 only that very grant. Where there is nothing to release it costs
// no log entry.
func (m *Master) Release(_ context.Context, path, session, handle string, token uint64) (lockapi.Released, error) {
	o, err := m.admit()
	if err != nil {
		return lockapi.Released{}, err
	}
	if answer, err, ok := o.nothingToRelease(pairKey{session, path, handle}, token); ok {
		return answer, err
	}
	r, err := o.propose(state.Command{Kind: state.Release, Session: session, Path: path, Handle: handle, Token: token})
	switch {
	case err != nil:
		return lockapi.Released{}, err
	case r.Verdict == state.NoSession:
		return lockapi.Released{}, errNoSession(session)
	}
	return lockapi.Released{Released: r.Verdict == state.Done}, nil
}

// nothingToRelease answers from memory where there is nothing to change. A call
// of the pair that is under way may be about to change that: then the log
// decides, in its order.
func (o *office) nothingToRelease(key pairKey, token uint64) (answer lockapi.Released, err error, ok bool) {
	o.mu.Lock()
	_, busy := o.pairs[key]
	o.mu.Unlock()
	if busy {
		return answer, nil, false
	}
	s := o.log.State()
	if _, lives := s.Session(key.session); !lives {
		err = errNoSession(key.session)
	} else if hold, wait := s.Claim(key.session, key.path, key.handle); wait != nil && token == 0 ||
		hold != nil && (token == 0 || token == hold.Token) {
		return answer, nil, false
	}
	return answer, err, o.lease.Valid(o.opts.Clock())
}
