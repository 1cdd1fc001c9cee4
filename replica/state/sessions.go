package state

import (
	"bytes"
	"slices"
)

func (e *editor) openSession(c *Command) Result {
	if c.Key != "" {
		if old, ok := e.keys.Get(c.Key); ok {
			if !bytes.Equal(old.Digest, c.Digest) {
				return Result{Verdict: Conflict, Clash: ClashKey, Session: old}
			}
			return Result{Verdict: Done, Session: old}
		}
	}
	if _, taken := e.sessions.Get(c.Session); taken {
		return Result{Verdict: Refused}
	}
	s := &Session{ID: c.Session, Name: c.Name, TTLMS: c.TTLMS, CreatedAt: e.Now,
		Meta: c.Meta, Key: c.Key, Digest: c.Digest}
	e.sessions.Put(s.ID, s)
	if s.Key != "" {
		e.keys.Put(s.Key, s)
	}
	e.emit(Event{Kind: EventOpened, Session: s})
	return Result{Verdict: Done, Session: s}
}

// endSession frees all that a session holds and drops all its waits before
// anything is handed on, so that no wait of a dead session is ever granted.
// Only an expiry leaves lock-delays behind.
func (e *editor) endSession(c *Command) Result {
	s, ok := e.sessions.Get(c.Session)
	if !ok {
		return Result{Verdict: NoSession}
	}
	expired := c.Kind == ExpireSession
	var touched []string
	before := *e.State
	e.claims.Edit() // the walk sees them as they were when it began
	for h, w := range before.Claims(s.ID) {
		if h != nil {
			e.dropHold(h)
			if expired && h.DelayMS > 0 {
				e.delay(h.Path, h.DelayMS)
			}
			touched = append(touched, h.Path)
		} else {
			e.dropWait(w)
			touched = append(touched, w.Path)
		}
	}
	e.sessions.Delete(s.ID)
	if s.Key != "" {
		e.keys.Delete(s.Key)
	}
	for _, path := range slices.Compact(touched) {
		e.settle(path)
	}
	e.emit(Event{Kind: EventEnded, Session: s, Expired: expired})
	return Result{Verdict: Done, Session: s}
}
