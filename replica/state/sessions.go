package state

import (
	"bytes"
	"slices"
	"strings"
)

func (e *editor) openSession(c *Command) Result {
	if c.Key != "" {
		if id, ok := e.keys.get([]byte(c.Key)); ok {
			old, _ := e.sessions.get([]byte(id))
			if !bytes.Equal(old.Digest, c.Digest) {
				return Result{Verdict: Conflict, Clash: ClashKey, Session: old}
			}
			return Result{Verdict: Done, Session: old}
		}
	}
	if _, taken := e.sessions.get([]byte(c.Session)); taken {
		return Result{Verdict: Refused}
	}
	s := &Session{ID: c.Session, Name: c.Name, TTLMS: c.TTLMS, CreatedAt: e.Now,
		Meta: c.Meta, Key: c.Key, Digest: c.Digest}
	e.sessions.put([]byte(s.ID), s)
	if s.Key != "" {
		e.keys.put([]byte(s.Key), s.ID)
	}
	e.emit(Event{Kind: EventOpened, Session: s})
	return Result{Verdict: Done, Session: s}
}

// endSession frees all that a session holds and drops all its waits before
// anything is handed on, so that no wait of a dead session is ever granted.
// Only an expiry leaves lock-delays behind.
func (e *editor) endSession(c *Command) Result {
	s, ok := e.sessions.get([]byte(c.Session))
	if !ok {
		return Result{Verdict: NoSession}
	}
	expired := c.Kind == ExpireSession
	var touched []string
	for path, has := range e.claimsOf(s.ID) {
		if has.token != 0 {
			h, _ := e.holds.get(numbered(path, has.token))
			e.dropHold(h)
			if expired && h.DelayMS > 0 {
				e.delay(path, h.DelayMS)
			}
		} else {
			w, _ := e.queue.get(numbered(path, has.seq))
			e.dropWait(w)
		}
		touched = append(touched, path)
	}
	e.sessions.del([]byte(s.ID))
	if s.Key != "" {
		e.keys.del([]byte(s.Key))
	}
	for _, path := range slices.Compact(touched) {
		e.settle(path)
	}
	e.emit(Event{Kind: EventEnded, Session: s, Expired: expired})
	return Result{Verdict: Done, Session: s}
}

// claimsOf walks a session's claims as they were when the walk began, in path
// order. The trees may be changed during the walk.
func (e *editor) claimsOf(session string) func(yield func(string, claim) bool) {
	prefix := at(session)
	it := e.claims.base.Root().Iterator()
	if e.claims.txn != nil {
		// A clone seals the nodes reached so far: the walk sees them unchanged.
		it = e.claims.txn.Clone().Root().Iterator()
	}
	it.SeekPrefix(prefix)
	return func(yield func(string, claim) bool) {
		for k, c, ok := it.Next(); ok; k, c, ok = it.Next() {
			path, _, _ := strings.Cut(string(k[len(prefix):]), "\x00")
			if !yield(path, c) {
				return
			}
		}
	}
}
