package master

import (
	"bytes"

	"github.com/stoutlock/stout/replica/state"
)

// A call that may add a claim or a session reserves the room for it before it
// is proposed, and keeps that until it is answered.
//
// Calls of one claim key share one reservation, and where there is a claim
// already they need none: a repeated call is never refused. Where a claim ends
// while calls of its key are in the log, one of them may make it anew: its room
// passes to them. The same holds for sessions that are opened under one
// idempotency key.

// reservation is room that is taken for a claim or a session which one of the
// calls in the log may make.
type reservation struct {
	calls int  // in the log; it ends with the last of them
	taken bool // the room is counted
	wait  bool // that of a place in a queue is, too
}

// reserve takes room for an acquire that is about to be proposed; release has
// to follow, unless err says that there is none. Where there is room for a
// grant but for no place in the queue, the call must not wait, and full is why.
func (a *accounting) reserve(op *state.Acquire) (full *exceeded, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, key := a.log.State(), acquireKey(op)
	r := a.claims[key]
	if r == nil {
		r = &reservation{}
	}
	if own := a.session(s, op.Session); own != nil { // else the log will tell
		if full, err = a.takeRoom(r, own, s, op); err != nil {
			return nil, err
		}
	}
	r.calls++
	a.claims[key] = r
	return full, nil
}

// takeRoom has r take the room that it lacks for op. full and err are those of
// reserve. a.mu is held.
func (a *accounting) takeRoom(r *reservation, own *sessionUse, s *state.State, op *state.Acquire) (full *exceeded, err error) {
	key := acquireKey(op)
	hold, wait := key.in(s)
	claim := claimUsage(key)
	needs := hold == nil && wait == nil && !r.taken
	if needs {
		if e := a.exceeds(own, claim); e != nil {
			return nil, a.refuse(e)
		}
	}
	if wait == nil && !r.wait && op.Wait != state.NoWait {
		full = a.exceeds(own, waitUsage)
		if full != nil && needs && mustWait(s, op) {
			return nil, a.refuse(full)
		}
		if full == nil {
			a.add(key.session, waitUsage, 1)
			r.wait = true
		}
	}
	if needs {
		a.add(key.session, claim, 1)
		r.taken = true
	}
	return full, nil
}

// join has a call share what is reserved for its claim, without a room of its
// own; release has to follow.
func (a *accounting) join(key claimKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.claims[key]
	if r == nil {
		r = &reservation{}
		a.claims[key] = r
	}
	r.calls++
}

// mustWait says that a claim would be a place in a queue.
func mustWait(s *state.State, op *state.Acquire) bool {
	once := *op
	once.Wait = state.NoWait
	found, _ := s.Would(&once)
	r, _ := found.(state.AcquireResult)
	return r.Verdict == state.Busy || r.Verdict == state.Delayed
}

// release ends a call's part in a reservation. With the last one goes the room
// that was not used.
func (a *accounting) release(key claimKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := leave(a.claims, key)
	if r == nil {
		return
	}
	if r.taken {
		a.add(key.session, claimUsage(key), -1)
	}
	if r.wait {
		a.add(key.session, waitUsage, -1)
	}
}

// claimed counts a new claim, which takes over the room that is reserved for
// it. a.mu is held.
func (a *accounting) claimed(key claimKey, waits bool) {
	r := a.claims[key]
	if r == nil {
		r = &reservation{}
	}
	if !r.taken {
		a.add(key.session, claimUsage(key), 1)
	}
	r.taken = false
	if waits {
		if !r.wait {
			a.add(key.session, waitUsage, 1)
		}
		r.wait = false
	}
}

// claimEnded counts the end of a claim, waitEnded that of a place in a queue,
// by a grant or otherwise. Calls of the key that are in the log keep the room:
// they may make the claim anew. a.mu is held.
func (a *accounting) claimEnded(key claimKey) {
	if r := a.claims[key]; r != nil && !r.taken {
		r.taken = true
		return
	}
	a.add(key.session, claimUsage(key), -1)
}

func (a *accounting) waitEnded(key claimKey) {
	if r := a.claims[key]; r != nil && !r.wait {
		r.wait = true
		return
	}
	a.add(key.session, waitUsage, -1)
}

// opening names the calls that may open one session: those with the same
// idempotency key and body, or else a single one.
type opening struct{ id, key, digest string }

func openingOf(id, key string, digest []byte) opening {
	if key != "" {
		return opening{key: key, digest: string(digest)}
	}
	return opening{id: id}
}

// reserveSession takes room for a session that is about to be opened. The
// function returned has to be called when the call has been answered.
func (a *accounting) reserveSession(op *state.OpenSession) (release func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name, more := openingOf(op.Session, op.Key, op.Digest), sessionUsage(op.Name, op.Key, op.Meta)
	r := a.openings[name]
	if r == nil {
		r = &reservation{}
	}
	there := false
	if op.Key != "" {
		v, ok := a.log.State().SessionByKey(op.Key)
		there = ok && bytes.Equal(v.Digest, op.Digest)
	}
	if !there && !r.taken {
		if e := a.exceeds(&sessionUse{}, more); e != nil {
			return nil, a.refuse(e)
		}
		a.cell.add(more, 1)
		r.taken = true
	}
	r.calls++
	a.openings[name] = r
	return func() { a.releaseSession(name, more) }, nil
}

func (a *accounting) releaseSession(name opening, u usage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := leave(a.openings, name); r != nil && r.taken {
		a.cell.add(u, -1)
	}
}

// leave ends a call's part in a reservation, which it returns if that was the
// last one.
func leave[K comparable](of map[K]*reservation, key K) *reservation {
	r := of[key]
	if r.calls--; r.calls > 0 {
		return nil
	}
	delete(of, key)
	return r
}

// sessionOpened counts a new session. a.mu is held.
func (a *accounting) sessionOpened(v *state.Session) {
	a.addSession(v)
	if r := a.openings[openingOf(v.ID, v.Key, v.Digest)]; r != nil && r.taken {
		r.taken = false
		return
	}
	a.cell.add(usageOf(v), 1)
}

// sessionEnded counts the end of a session, which has no claims any more. Its
// answers are forgotten with it. a.mu is held.
func (a *accounting) sessionEnded(v *state.Session) {
	if own := a.sessions[v.ID]; own != nil {
		a.cell.add(usage{bytes: own.answers}, -1)
	}
	delete(a.sessions, v.ID)
	if r := a.openings[openingOf(v.ID, v.Key, v.Digest)]; r != nil && !r.taken {
		r.taken = true
		return
	}
	a.cell.add(usageOf(v), -1)
}
