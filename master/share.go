package master

import (
	"bytes"

	"github.com/stoutlock/stout/replica/state"
)

// How the office knows, without walking the state, what is used of the quotas.
//
// A new office counts what the state holds. From then on it follows the changes
// that the log makes. A call that may add a claim takes its
// share before it is proposed and keeps it until it is answered, so that the sum
// is never below what the state will come to, whatever is under way.
//
// Calls of one pair share one share, and a pair that has a claim already needs
// none: a repeated call is never refused. Where a claim ends while calls of its
// pair are in the log, one of them may make it anew: its share passes to them.
// The same holds for sessions that are opened under one idempotency key.

// share is what calls under way have taken of the quotas, for a claim or a
// session that one of them may make.
type share struct {
	calls int  // in the log
	taken bool // it counts in office.use
	place bool // a place in a queue does, too
}

// reserve takes the share of an acquire that is about to be proposed; release
// has to follow, unless err says that there is no room. Where there is room for
// a grant but for no place in the queue, the call must not wait, and full is why.
func (a *acquire) reserve() (full *lack, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.log.State()
	own := a.sessions[a.key.session]
	if own == nil {
		if v, lives := s.Session(a.key.session); lives {
			a.addSession(v, a.opts.Clock()) // the office has not been told of it yet
			own = a.sessions[a.key.session]
		}
	}
	sh := &a.pair.share
	if own == nil { // the log will tell
		sh.calls++
		return nil, nil
	}
	hold, wait := s.Claim(a.key.session, a.key.path, a.key.handle)
	claim := claimAmount(a.key.path, a.key.handle)
	needs := hold == nil && wait == nil && !sh.taken
	if needs {
		if l := a.room(own, claim); l != nil {
			return nil, a.refuse(l)
		}
	}
	if wait == nil && !sh.place && a.op.Wait != state.NoWait {
		full = a.room(own, place)
		if full != nil && needs && a.mustWait(s) {
			return nil, a.refuse(full)
		}
		if full == nil {
			a.count(own.id, place, 1)
			sh.place = true
		}
	}
	if needs {
		a.count(own.id, claim, 1)
		sh.taken = true
	}
	sh.calls++
	return full, nil
}

// mustWait says that a claim would be a place in a queue.
func (a *acquire) mustWait(s *state.State) bool {
	op := a.op
	op.Wait = state.NoWait
	found, _ := s.Would(&op)
	r, _ := found.(state.AcquireResult)
	return r.Verdict == state.Busy || r.Verdict == state.Delayed
}

// release gives back what the last call of a pair has taken and not used.
func (a *acquire) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	sh := &a.pair.share
	if sh.calls--; sh.calls > 0 {
		return
	}
	if sh.taken {
		a.count(a.key.session, claimAmount(a.key.path, a.key.handle), -1)
	}
	if sh.place {
		a.count(a.key.session, place, -1)
	}
	*sh = share{}
}

// claimed notes a new claim: a call's share becomes the claim's. o.mu is held.
func (o *office) claimed(key pairKey, waits bool) {
	sh := &share{}
	if p := o.pairs[key]; p != nil {
		sh = &p.share
	}
	if !sh.taken {
		o.count(key.session, claimAmount(key.path, key.handle), 1)
	}
	sh.taken = false
	if waits {
		if !sh.place {
			o.count(key.session, place, 1)
		}
		sh.place = false
	}
}

// unclaimed notes the end of a claim, unplaced that of a place in a queue, by a
// grant or otherwise. Calls of the pair that are in the log keep the share: they
// may make the claim anew. o.mu is held.
func (o *office) unclaimed(key pairKey) {
	if p := o.pairs[key]; p != nil && p.share.calls > 0 && !p.share.taken {
		p.share.taken = true
		return
	}
	o.count(key.session, claimAmount(key.path, key.handle), -1)
}

func (o *office) unplaced(key pairKey) {
	if p := o.pairs[key]; p != nil && p.share.calls > 0 && !p.share.place {
		p.share.place = true
		return
	}
	o.count(key.session, place, -1)
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

// reserveSession takes the share of a session that is about to be opened. The
// function returned has to be called when the call has been answered.
func (o *office) reserveSession(c *state.OpenSession) (release func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name, more := openingOf(c.Session, c.Key, c.Digest), sessionAmount(c.Name, c.Key, c.Meta)
	sh := o.openings[name]
	if sh == nil {
		sh = &share{}
	}
	there := false
	if c.Key != "" {
		v, ok := o.log.State().SessionByKey(c.Key)
		there = ok && bytes.Equal(v.Digest, c.Digest)
	}
	if !there && !sh.taken {
		if l := o.room(&session{}, more); l != nil {
			return nil, o.refuse(l)
		}
		o.use.add(more, 1)
		sh.taken = true
	}
	sh.calls++
	o.openings[name] = sh
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if sh.calls--; sh.calls > 0 {
			return
		}
		if sh.taken {
			o.use.add(more, -1)
		}
		delete(o.openings, name)
	}, nil
}

// sessionOpened notes a new session. o.mu is held.
func (o *office) sessionOpened(v *state.Session) {
	if sh := o.openings[openingOf(v.ID, v.Key, v.Digest)]; sh != nil && sh.taken {
		sh.taken = false
		return
	}
	o.use.add(amountOf(v), 1)
}

// sessionEnded notes the end of a session, which has no claims any more. o.mu is
// held.
func (o *office) sessionEnded(v *state.Session) {
	if sh := o.openings[openingOf(v.ID, v.Key, v.Digest)]; sh != nil && sh.calls > 0 && !sh.taken {
		sh.taken = true
		return
	}
	o.use.add(amountOf(v), -1)
}
