package state

// Release ends what is claimed: a hold or a place in the queue. It comes to
// Done, Nothing or NoSession.
type Release struct {
	Session string `cbor:"1,keyasint,omitempty"`
	Path    string `cbor:"2,keyasint,omitempty"`
	Handle  string `cbor:"3,keyasint,omitempty"`
	Token   uint64 `cbor:"4,keyasint,omitempty"` // only that very grant; 0 = any, and a place in the queue
	// Forced says that somebody else than the holder's program does it: see
	// State.RecordsEndings. It is only shown to people.
	Forced bool `cbor:"5,keyasint,omitempty"`
}

func (op *Release) wellFormed() bool { return plain(op.Path) }

func (op *Release) size() int { return 40 + len(op.Session) + len(op.Path) + len(op.Handle) }

func (op *Release) would(s *State) (Result, bool) {
	has, ok := s.claims.Get(claimKey{op.Session, op.Path, op.Handle})
	if !ok { // where there is a claim its session lives
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

// end ends the claim. If that is not its session's doing, the session loses the hold.
func (op *Release) end(e *editor, lost LossReason) {
	why := e.gives(op.Session)
	if op.Forced {
		why = Forced
	}
	if why != Forced {
		lost = 0
	}
	e.drop(claimKey{op.Session, op.Path, op.Handle}, why, lost)
}

// drop ends a claim that is there, and hands its lock on. The session loses a hold
// where lost is not 0.
func (e *editor) drop(key claimKey, why Reason, lost LossReason) {
	switch has, _ := e.claims.Get(key); {
	case has.hold == nil:
		e.dropWait(has.wait)
	default:
		e.dropHold(has.hold, why)
		if lost != 0 {
			e.lose(has.hold, lost)
		}
	}
	e.settle(key.path)
}

// gives says why a grant of a session ends that the present command releases.
func (e *editor) gives(session string) Reason {
	s, _ := e.sessions.Get(session)
	if e.caller != "" && s.Principal != "" && s.Principal != e.caller {
		return Forced
	}
	return GivenBack
}

// Withdraw ends the wait with number Seq, unless it is a persistent one,
// because no call waits for it any more. The grant may have come first: then
// the claim is a hold, and Undo says that nobody was told, so that the grant is
// taken back. It comes to an AcquireResult: Done, Nothing, or Held or Queued
// where that stays.
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
	has, ok := s.claims.Get(claimKey{op.Session, op.Path, op.Handle})
	if !ok || op.Seq == 0 { // 0 is the WaitSeq of every grant made at once, and no wait's number
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
	e.drop(claimKey{op.Session, op.Path, op.Handle}, GivenBack, LostByUndo)
	return r
}
