package state

import "slices"

// Loss is the end of a hold without its session's doing. The session keeps it, so
// that every later master can report it until the client has acknowledged EventSeq.
type Loss struct {
	Path     string     `cbor:"1,keyasint"`
	Handle   string     `cbor:"2,keyasint,omitempty"`
	Token    uint64     `cbor:"3,keyasint"`
	EventSeq uint64     `cbor:"4,keyasint"` // number of the event, higher than for earlier losses
	Reason   LossReason `cbor:"5,keyasint"`
}

// LossReason is the reason why a session lost a hold. The numbers are written to disk.
type LossReason uint8

// The reasons.
const (
	LostByForce       LossReason = 1 // another principal, or an operator, released it
	LostByUndo        LossReason = 2 // the master revoked a grant because its caller was gone
	LostByTransaction LossReason = 3 // another principal's transaction released it
)

// MostLosses bounds the losses that a session keeps; the oldest go first. A session
// that loses more between two keepalives learns of older ones from the master that
// was in office, which keeps more of them, but not from its successor.
const MostLosses = 128

// levelLosses is the level from which on sessions keep their losses.
const levelLosses = 5

// HoldLost reports that a session has lost a hold. Released precedes it.
type HoldLost struct {
	Session string
	Loss    *Loss
}

// lose records that the session of h loses it. The caller drops the hold.
func (e *editor) lose(h *Hold, why LossReason) {
	if e.Level < levelLosses {
		return
	}
	was, _ := e.sessions.Get(h.Session)
	v := *was
	l := &Loss{Path: h.Path, Handle: h.Handle, Token: h.Token, EventSeq: e.nextSeq(), Reason: why}
	v.Losses = append(slices.Clone(v.Losses[max(0, len(v.Losses)-MostLosses+1):]), l)
	e.bytes += v.Bytes() - was.Bytes()
	e.putSession(&v)
	e.record(HoldLost{Session: v.ID, Loss: l})
}

// putSession replaces a session by a changed copy.
func (e *editor) putSession(v *Session) {
	e.sessions.Put(v.ID, v)
	if v.Key != "" {
		e.keys.Put(v.Key, v)
	}
}
