package state

import (
	"bytes"
	"slices"
)

// Session is an open session. Only the master knows when it expires. It is
// immutable.
type Session struct {
	ID        string            `cbor:"1,keyasint"`
	Name      string            `cbor:"2,keyasint,omitempty"`
	TTLMS     int64             `cbor:"3,keyasint"`
	CreatedAt int64             `cbor:"4,keyasint"` // Unix nanoseconds
	Meta      map[string]string `cbor:"5,keyasint,omitempty"`
	Key       string            `cbor:"6,keyasint,omitempty"`
	Digest    []byte            `cbor:"7,keyasint,omitempty"`
	Principal string            `cbor:"8,keyasint,omitempty"`  // its owner; empty if no known principal has used it
	Losses    []*Loss           `cbor:"9,keyasint,omitempty"`  // the latest MostLosses, by EventSeq
	Revision  uint64            `cbor:"10,keyasint,omitempty"` // of the cell when it was opened, from levelKeys on
}

// OpenSession opens a session, or finds the one opened under its key. The
// result is a SessionResult.
type OpenSession struct {
	Session string            `cbor:"1,keyasint,omitempty"` // id, made by the master
	Name    string            `cbor:"2,keyasint,omitempty"`
	TTLMS   int64             `cbor:"3,keyasint,omitempty"`
	Meta    map[string]string `cbor:"4,keyasint,omitempty"`
	Key     string            `cbor:"5,keyasint,omitempty"` // idempotency key
	Digest  []byte            `cbor:"6,keyasint,omitempty"` // of the body sent with Key
}

// SessionResult is the result of OpenSession: Done with the session, or
// Conflict with the session opened under the key with another body.
type SessionResult struct {
	Verdict Verdict
	Session *Session // nil from Would if the operation would change something
}

// SessionOpened reports a new session.
type SessionOpened struct{ Session *Session }

// SessionEnded reports that a session is gone. Its holds and waits ended before
// it.
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
	if e.Level >= levelKeys {
		v.Revision = e.Revision
	}
	e.putSession(v)
	e.bytes += v.Bytes()
	e.record(SessionOpened{Session: v})
	return SessionResult{Verdict: Done, Session: v}
}

// CloseSession ends a session for its client.
type CloseSession struct {
	Session string `cbor:"1,keyasint,omitempty"`
	// Delays leaves the holds' lock-delays, from levelKeys on: the client may
	// not know of the end.
	Delays bool `cbor:"2,keyasint,omitempty"`
}

// ExpireSession ends a session that was not kept alive. Its holds leave their
// lock-delays.
type ExpireSession struct {
	Session string `cbor:"1,keyasint,omitempty"`
	// SilentMS is the time in milliseconds since the master last received
	// anything from the session; 0 if not given: see State.RecordsEndings. It
	// is only shown to people.
	SilentMS int64 `cbor:"2,keyasint,omitempty"`
}

// RecordsEndings reports whether commands may carry details of an ending:
// ExpireSession.SilentMS and Release.Forced. At an earlier level, a member may
// run a release that cannot read them.
func (s *State) RecordsEndings() bool { return s.Level >= levelAccess }

func (op *CloseSession) wellFormed() bool  { return true }
func (op *ExpireSession) wellFormed() bool { return true }

func (op *CloseSession) size() int  { return 18 + len(op.Session) }
func (op *ExpireSession) size() int { return 24 + len(op.Session) }

func (op *CloseSession) would(s *State) (Result, bool)  { return s.wouldEnd(op.Session) }
func (op *ExpireSession) would(s *State) (Result, bool) { return s.wouldEnd(op.Session) }

func (op *CloseSession) do(e *editor, r Result) Result {
	e.endSession(op.Session, Closed, op.Delays)
	return r
}

func (op *ExpireSession) do(e *editor, r Result) Result {
	e.silentMS = op.SilentMS
	e.endSession(op.Session, Expired, true)
	return r
}

func (s *State) wouldEnd(session string) (Result, bool) {
	if _, ok := s.sessions.Get(session); !ok {
		return NoSession, false
	}
	return Done, true
}

// endSession frees everything that a session holds and drops all its waits
// before it hands any lock on. So a wait of an ended session is never granted.
// Its holds leave lock-delays if delays is set.
func (e *editor) endSession(id string, why Reason, delays bool) {
	s, _ := e.sessions.Get(id)
	var touched []string
	before := *e.State
	e.own() // the walks see the state as it was when they began
	for h, w := range before.HoldsAndWaits(id) {
		if h != nil {
			e.dropHold(h, why)
			if delays && h.DelayMS > 0 {
				e.delay(h.Path, h.DelayMS)
			}
			touched = append(touched, h.Path)
		} else {
			e.dropPart(w) // the walk reaches the other parts of a set by itself
			touched = append(touched, w.Path)
		}
	}
	for f := range before.Ephemeral(id) {
		if now, there := e.File(f.Path); there { // the end of a hold may have changed or deleted it
			e.dropFile(now, why)
		}
	}
	e.dropSession(s)
	for _, path := range slices.Compact(touched) {
		e.settle(path)
	}
	e.record(SessionEnded{Session: s, Expired: why == Expired})
}

// dropSession removes a session without holds, waits or files, and its answers.
func (e *editor) dropSession(v *Session) {
	e.bytes -= v.Bytes() + e.Answers(v.ID).Bytes()
	e.answers.Delete(v.ID)
	e.sessions.Delete(v.ID)
	if v.Key != "" {
		e.keys.Delete(v.Key)
	}
}
