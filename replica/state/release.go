package state

// Release ends a hold or a queue position. The result is Done, Nothing
// or NoSession.
type Release struct {
	Session string `cbor:"1,keyasint,omitempty"`
	Path    string `cbor:"2,keyasint,omitempty"`
	Handle  string `cbor:"3,keyasint,omitempty"`
	Token   uint64 `cbor:"4,keyasint,omitempty"` // release only this grant; 0 = any grant or a queue position
	// Forced is set if someone other than the holder's program releases it: see
	// State.RecordsEndings. It is only shown to people.
	Forced bool `cbor:"5,keyasint,omitempty"`
}

func (op *Release) wellFormed() bool { return plain(op.Path) }

func (op *Release) size() int { return 40 + len(op.Session) + len(op.Path) + len(op.Handle) }

func (op *Release) would(s *State) (Result, bool) {
	has, ok := s.handles.Get(HandleKey{op.Session, op.Path, op.Handle})
	if !ok { // a hold or wait implies that its session lives
		if _, lives := s.sessions.Get(op.Session); !lives {
			return NoSession, false
		}
		return Nothing, false
	}
	if op.Token != 0 && (has.hold == nil || op.Token != has.hold.Token) {
		return Nothing, false
	}
	return Done, true
}

func (op *Release) do(e *editor, r Result) Result {
	op.end(e, LostByForce)
	return r
}

// end ends the hold or wait. If another principal or an operator ends it, the session
// records the loss of the hold.
func (op *Release) end(e *editor, lost LossReason) {
	why := e.gives(op.Session)
	if op.Forced {
		why = Forced
	}
	if why != Forced {
		lost = 0
	}
	e.drop(HandleKey{op.Session, op.Path, op.Handle}, why, lost)
}

// drop ends an existing hold or wait, or all waits of a set, and grants the lock to
// the next waiter. If lost is not 0, the session records the loss of the hold.
func (e *editor) drop(key HandleKey, why Reason, lost LossReason) {
	has, _ := e.handles.Get(key)
	if has.hold == nil {
		e.dropWait(has.wait)
		e.settleAll(has.wait)
		return
	}
	e.dropHold(has.hold, why)
	if lost != 0 {
		e.lose(has.hold, lost)
	}
	e.settle(key.Path)
}

// gives returns the reason for a grant's end when the present command releases
// it.
func (e *editor) gives(session string) Reason {
	s, _ := e.sessions.Get(session)
	if e.caller != "" && s.Principal != "" && s.Principal != e.caller {
		return Forced
	}
	return GivenBack
}

// Withdraw ends the wait with number Seq, unless it is persistent, because no
// call waits for it any more. If it was granted in the meantime, it is a
// hold. Undo is set if no caller has learned of the grant; the grant is then
// revoked. The result is an AcquireResult: Done, Nothing, or Held or Queued if
// it stays.
type Withdraw struct {
	Session string `cbor:"1,keyasint,omitempty"`
	Path    string `cbor:"2,keyasint,omitempty"`
	Handle  string `cbor:"3,keyasint,omitempty"`
	Seq     uint64 `cbor:"4,keyasint,omitempty"`
	Undo    bool   `cbor:"5,keyasint,omitempty"`
}

func (op *Withdraw) wellFormed() bool { return plain(op.Path) }

func (op *Withdraw) size() int { return 32 + len(op.Session) + len(op.Path) + len(op.Handle) }

func (op *Withdraw) would(s *State) (Result, bool) {
	has, ok := s.handles.Get(HandleKey{op.Session, op.Path, op.Handle})
	if !ok || op.Seq == 0 { // 0 is the WaitSeq of every immediate grant, and never a wait's number
		return AcquireResult{Verdict: Nothing}, false
	}
	h, w := has.hold, has.wait
	switch {
	case h != nil && h.WaitSeq != op.Seq, w != nil && w.Seq != op.Seq:
		return AcquireResult{Verdict: Nothing}, false
	case w != nil && w.Keep:
		return AcquireResult{Verdict: Queued, Wait: w}, false
	case h != nil && (!op.Undo || h.EventSeq != 0):
		return AcquireResult{Verdict: Held, Hold: h}, false
	}
	return AcquireResult{Verdict: Done}, true
}

func (op *Withdraw) do(e *editor, r Result) Result {
	e.drop(HandleKey{op.Session, op.Path, op.Handle}, GivenBack, LostByUndo)
	return r
}
