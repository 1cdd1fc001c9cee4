package master

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// OpenSession opens a session. A repeated request with the same idempotency key
// returns the same session, extended as by a keepalive: the caller may have
// tried for longer than its ttl. A session past due is not revived: the call
// waits for its end and opens another. Another request under the key is a
// conflict. If a quota is used up, the error is too_many.
func (m *Master) OpenSession(ctx context.Context, by *Caller, req *lockapi.OpenSession) (lockapi.Session, error) {
	return serve(m, by, func(o *office) (lockapi.Session, error) { return o.openSession(ctx, by, req) })
}

func (o *office) openSession(ctx context.Context, by *Caller, req *lockapi.OpenSession) (lockapi.Session, error) {
	c := &state.OpenSession{Session: rand.Text(), TTLMS: req.TTLMS, Name: req.Name, Meta: req.Meta, Key: by.ownKey(req.Key)}
	if req.Key != "" {
		c.Digest = digestOf(req.SessionRequest)
	}
	for {
		v, err := o.sessionUnder(by, req.Key, c)
		if err == nil && v.ID != c.Session {
			k := newKeepalive(o)
			k.noEvents, k.by = true, by
			_, err = k.run(ctx, v.ID, nil, nil)
		}
		switch {
		case err == nil:
			return sessionOf(v, o.epoch), nil
		case v == nil || !errors.Is(err, lockapi.CodeSessionNotFound):
			return lockapi.Session{}, err
		}
		// The session has ended in the meantime: the key is free.
	}
}

// ownKey returns an idempotency key as the cell stores it: each principal has
// keys of its own. NUL is in no key and no principal. Callers without a
// principal share their keys.
func (by *Caller) ownKey(key string) string {
	if key == "" || by.Principal == "" {
		return key
	}
	return by.Principal + "\x00" + key
}

// sessionUnder returns the session that was opened with an operation's
// idempotency key, or opens it. A session that it finds may be past due; a
// keepalive must check that.
func (o *office) sessionUnder(by *Caller, key string, op *state.OpenSession) (*state.Session, error) {
	if r, changes := o.log.State().Would(op); !changes {
		switch found, _ := r.(state.SessionResult); {
		case found.Verdict == state.Done:
			return found.Session, nil
		case found.Verdict == state.Conflict && o.leaseValid():
			return nil, errOtherBody(key)
		}
	}
	reserved, err := o.quotas.Session(op, by.Principal)
	if err != nil {
		return nil, err
	}
	defer o.quotas.Release(reserved)
	r, err := resultOf[state.SessionResult](o.propose(by, op))
	switch {
	case err != nil:
		return nil, err
	case r.Verdict == state.Conflict:
		return nil, errOtherBody(key)
	}
	return r.Session, nil
}

func errOtherBody(key string) error {
	return lockapi.Errorf(lockapi.CodeConflict,
		"%s %q was used for a session with another body; use a fresh key for a new session", lockapi.HeaderIdempotencyKey, key)
}

// CloseSession ends a session and frees everything it holds, without
// lock-delay. Closing a missing session succeeds.
func (m *Master) CloseSession(_ context.Context, by *Caller, req *lockapi.CloseSession) error {
	return m.closeSession(by, &state.CloseSession{Session: req.Session}, req.Quiet)
}

func (m *Master) closeSession(by *Caller, op *state.CloseSession, quiet bool) error {
	_, err := serve(m, by, func(o *office) (state.Result, error) {
		if r, ok := o.fromMemory(op); ok {
			return r, nil
		}
		if err := o.ReadyFor(op); err != nil {
			return nil, err
		}
		return o.proposeEnd(by, op, op.Session, quiet)
	})
	return err
}

func sessionOf(v *state.Session, epoch uint64) lockapi.Session {
	meta := v.Meta
	if meta == nil {
		meta = map[string]string{}
	}
	return lockapi.Session{ID: v.ID, Name: v.Name, TTLMS: v.TTLMS, Epoch: epoch,
		CreatedAt: time.Unix(0, v.CreatedAt).UTC(), Meta: meta, Principal: v.Principal, Revision: v.Revision}
}
