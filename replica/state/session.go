package state

import (
	"bytes"
	"slices"
)

// Session is an open session. How long it still lives is known to the master
// only. It is immutable.
type Session struct {
	ID        string            `cbor:"1,keyasint"`
	Name      string            `cbor:"2,keyasint,omitempty"`
	TTLMS     int64             `cbor:"3,keyasint"`
	CreatedAt int64             `cbor:"4,keyasint"` // Unix nanoseconds
	Meta      map[string]string `cbor:"5,keyasint,omitempty"`
	Key       string            `cbor:"6,keyasint,omitempty"`
	Digest    []byte            `cbor:"7,keyasint,omitempty"`
	Principal string            `cbor:"8,keyasint,omitempty"` // whose it is; empty where nobody known has used it
	Losses    []*Loss           `cbor:"9,keyasint,omitempty"` // the latest MostLosses, by EventSeq
}

// OpenSession opens a session, or finds the one that was opened under its key.
// It comes to a SessionResult.
type OpenSession struct {
	Session string            `cbor:"1,keyasint,omitempty"` // id, made by the master
	Name    string            `cbor:"2,keyasint,omitempty"`
	TTLMS   int64             `cbor:"3,keyasint,omitempty"`
	Meta    map[string]string `cbor:"4,keyasint,omitempty"`
	Key     string            `cbor:"5,keyasint,omitempty"` // of idempotency
	Digest  []byte            `cbor:"6,keyasint,omitempty"` // of the body that came with Key
}

// SessionResult is what OpenSession comes to: Done with the session, or
// Conflict with the one that was opened under the key with another body.
type SessionResult struct {
	Verdict Verdict
	Session *Session // nil in what would change something
}

// SessionOpened says that there is a new session.
type SessionOpened struct{ Session *Session }

// SessionEnded says that a session is gone. What it held and waited for went
// before it.
type SessionEnded struct {
	Session *Session
	Expired bool
}

func (op *OpenSession) wellFormed() bool {
	return op.Session != "" && plain(op.Session)
}

func (op *OpenSession) size() int {
	n := 32 + len(op.Session) + len(op.Name) + len(op.Key) + len(op.Digest)
	for k, v := range op.Meta {
		n += len(k) + len(v) + 16
	}
	return n
}

func (op *OpenSession) would(s *State) (Result, bool) {
	if op.Key != "" {
		if old, ok := s.keys.Get(op.Key); ok {
			if !bytes.Equal(old.Digest, op.Digest) {
				return SessionResult{Verdict: Conflict, Session: old}, false
			}
			return SessionResult{Verdict: Done, Session: old}, false
		}
	}
	if _, taken := s.sessions.Get(op.Session); taken {
		return nil, false
	}
	return SessionResult{Verdict: Done}, true
}

func (op *OpenSession) do(e *editor, _ Result) Result {
	v := &Session{ID: op.Session, Name: op.Name, TTLMS: op.TTLMS, CreatedAt: e.Now,
		Meta: op.Meta, Key: op.Key, Digest: op.Digest, Principal: e.caller}
	e.putSession(v)
	e.bytes += v.Bytes()
	e.record(SessionOpened{Session: v})
	return SessionResult{Verdict: Done, Session: v}
}

// CloseSession ends a session by its client: there is no lock-delay.
type CloseSession struct {
	Session string `cbor:"1,keyasint,omitempty"`
}

// ExpireSession ends a session that was not kept alive: what it held leaves its
// lock-delays behind.
type ExpireSession struct {
	Session string `cbor:"1,keyasint,omitempty"`
	// SilentMS is for how long the master had heard nothing of it, in milliseconds;
	// 0 where that was not told: see State.RecordsEndings. It is only shown to people.
	SilentMS int64 `cbor:"2,keyasint,omitempty"`
}

// RecordsEndings reports whether commands may say more of how something ends than what
// it comes to: ExpireSession.SilentMS and Release.Forced. Members of a cell of an
// earlier level may run a release that can't read it.
func (s *State) RecordsEndings() bool { return s.Level >= levelAccess }

func (op *CloseSession) wellFormed() bool  { return true }
func (op *ExpireSession) wellFormed() bool { return true }

func (op *CloseSession) size() int  { return 16 + len(op.Session) }
func (op *ExpireSession) size() int { return 24 + len(op.Session) }

func (op *CloseSession) would(s *State) (Result, bool)  { return s.wouldEnd(op.Session) }
func (op *ExpireSession) would(s *State) (Result, bool) { return s.wouldEnd(op.Session) }

func (op *CloseSession) do(e *editor, r Result) Result {
	e.endSession(op.Session, Closed)
	return r
}

func (op *ExpireSession) do(e *editor, r Result) Result {
	e.silentMS = op.SilentMS
	e.endSession(op.Session, Expired)
	return r
}

func (s *State) wouldEnd(session string) (Result, bool) {
	if _, ok := s.sessions.Get(session); !ok {
		return NoSession, false
	}
	return Done, true
}

// endSession frees all that a session holds and drops all its waits before
// anything is handed on, so that no wait of a dead session is ever granted.
// Only an expiry leaves lock-delays behind.
func (e *editor) endSession(id string, why Reason) {
	s, _ := e.sessions.Get(id)
	var touched []string
	before := *e.State
	e.own() // the walks see all as it was when they began
	for h, w := range before.Claims(id) {
		if h != nil {
			e.dropHold(h, why)
			if why == Expired && h.DelayMS > 0 {
				e.delay(h.Path, h.DelayMS)
			}
			touched = append(touched, h.Path)
		} else {
			e.dropWait(w)
			touched = append(touched, w.Path)
		}
	}
	for f := range before.Ephemeral(id) {
		e.dropFile(f, why)
	}
	e.dropSession(s)
	for _, path := range slices.Compact(touched) {
		e.settle(path)
	}
	e.record(SessionEnded{Session: s, Expired: why == Expired})
}

// dropSession forgets a session that has no claims and files, and its answers.
func (e *editor) dropSession(v *Session) {
	e.bytes -= v.Bytes() + e.Answers(v.ID).Bytes()
	e.answers.Delete(v.ID)
	e.sessions.Delete(v.ID)
	if v.Key != "" {
		e.keys.Delete(v.Key)
	}
}
