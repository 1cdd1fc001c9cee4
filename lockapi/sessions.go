package lockapi

import (
	"fmt"
	"time"
)

// SessionRequest opens a session. Start from NewSessionRequest, which sets the
// defaults.
type SessionRequest struct {
	TTLMS int64             `json:"ttl_ms"`
	Name  string            `json:"name"`
	Meta  map[string]string `json:"meta,omitempty"`
}

// NewSessionRequest returns a request with all defaults.
func NewSessionRequest() SessionRequest { return SessionRequest{TTLMS: DefaultTTLMS} }

// Validate reports the first invalid field as an invalid_argument, or nil.
func (r *SessionRequest) Validate() error {
	if err := within("ttl_ms", r.TTLMS, MinTTLMS, MaxTTLMS); err != nil {
		return err
	}
	if len(r.Name) > MaxNameBytes {
		return Invalid("name", "the name has %d bytes; at most %d are allowed", len(r.Name), MaxNameBytes)
	}
	if len(r.Meta) > MaxMetaPairs {
		return Invalid("meta", "meta has %d pairs; at most %d are allowed", len(r.Meta), MaxMetaPairs)
	}
	return nil
}

// Session is one client's session, as replies show it.
type Session struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	TTLMS     int64             `json:"ttl_ms"`
	Epoch     uint64            `json:"epoch"`
	CreatedAt time.Time         `json:"created_at"`
	Meta      map[string]string `json:"meta"`
	Principal string            `json:"principal,omitempty"` // owner; empty if only anonymous callers used the session
	Revision  uint64            `json:"-"`                   // of the cell when it was opened; 0 if unknown
}

// SessionState is a session with its holds and waits.
type SessionState struct {
	Session
	// LeaseRemainingMS is the server's view; absent in stale reads.
	LeaseRemainingMS *int64 `json:"lease_remaining_ms,omitempty"`
	Holds            []Hold `json:"holds"`
	Waits            []Wait `json:"waits"`
}

// Hold is one grant of a session.
type Hold struct {
	Path      string `json:"path"`
	Handle    string `json:"handle"`
	Mode      Mode   `json:"mode"`
	Token     uint64 `json:"token"`
	Sequencer string `json:"sequencer"`
	// UnclaimedMS is set if no caller has received the grant yet and its queue
	// position was not kept. It is the time left to claim the grant before it
	// is revoked. Repeating the request (same session and handle) claims it;
	// reading it does not. It is 0 for a claimed grant, and in stale reads,
	// where it is unknown.
	UnclaimedMS int64 `json:"unclaimed_ms,omitempty"`
}

// Wait is one queue position of a session; position 1 is next.
type Wait struct {
	Path     string `json:"path"`
	Handle   string `json:"handle"`
	Mode     Mode   `json:"mode"`
	Position int    `json:"position"`
}

// SessionList is one page of sessions, ordered by id.
type SessionList struct {
	Sessions []SessionState `json:"sessions"`
	Next     string         `json:"next,omitempty"`
}

// KeepaliveRequest extends a session. The server holds the call for up to
// WaitMS. Ack is the highest event seq that the caller has received.
type KeepaliveRequest struct {
	WaitMS int64  `json:"wait_ms"`
	Ack    uint64 `json:"ack"`
}

// Validate reports the first invalid field, or nil.
func (r *KeepaliveRequest) Validate() error {
	if r.Ack > MaxToken {
		return Invalid("ack", "ack is %d; it must be within 0..%d", r.Ack, uint64(MaxToken))
	}
	return within("wait_ms", r.WaitMS, 0, MaxWaitMS)
}

// Keepalive is the answer. The session's lease now runs for TTLMS from the time
// when the caller sent the call, plus HeldMS.
type Keepalive struct {
	TTLMS  int64   `json:"ttl_ms"`
	HeldMS int64   `json:"held_ms"`
	Epoch  uint64  `json:"epoch"`
	Events []Event `json:"events"`
	// MembersRevision changes when the members of the cell or their URLs
	// change. It is not ordered, and every master reports the same value. It is
	// 0 within a Keepalives.
	MembersRevision uint64 `json:"members_revision,omitempty"`
}

// MaxKeepalives bounds the sessions of a KeepalivesRequest.
const MaxKeepalives = 1000

// KeepalivesRequest extends up to MaxKeepalives sessions of one caller. The
// server holds the call for up to WaitMS, or until one of the sessions has
// something to report.
type KeepalivesRequest struct {
	Sessions []SessionAck `json:"sessions"`
	WaitMS   int64        `json:"wait_ms"`
}

// SessionAck names a session and the highest event seq that the caller has
// received.
type SessionAck struct {
	ID  string `json:"id"`
	Ack uint64 `json:"ack"`
}

// Validate reports the first invalid field, or nil.
func (r *KeepalivesRequest) Validate() error {
	if n := len(r.Sessions); n == 0 || n > MaxKeepalives {
		return Invalid("sessions", "sessions has %d entries; it must have 1..%d", n, MaxKeepalives)
	}
	seen := make(map[string]bool, len(r.Sessions))
	for i, s := range r.Sessions {
		field := fmt.Sprintf("sessions[%d]", i)
		switch {
		case s.ID == "":
			return Invalid(field+".id", "%s.id is empty", field)
		case seen[s.ID]:
			return Invalid(field+".id", "%s.id is %q, which an earlier entry already has", field, Clip(s.ID))
		case s.Ack > MaxToken:
			return Invalid(field+".ack", "%s.ack is %d; it must be within 0..%d", field, s.Ack, uint64(MaxToken))
		}
		seen[s.ID] = true
	}
	return within("wait_ms", r.WaitMS, 0, MaxWaitMS)
}

// Keepalives is the answer: one entry per session, in the order of the request.
type Keepalives struct {
	Sessions        []KeptSession `json:"sessions"`
	MembersRevision uint64        `json:"members_revision"`
}

// KeptSession is the result for one session: its extension or the error.
type KeptSession struct {
	ID string `json:"id"`
	*Keepalive
	Error *Problem `json:"error,omitempty"`
}

// Types of session events.
const (
	EventLockGranted = "lock_granted" // a grant that followed a 202
	// EventLockWithdrawn reports that a queue position from a 202 is gone, for
	// Reason. It has neither token nor sequencer.
	EventLockWithdrawn = "lock_withdrawn"
	// EventLockLost reports that the hold with this token ended without an
	// action of the session, for Reason. It has neither mode nor sequencer.
	EventLockLost = "lock_lost"
)

// Reasons in session events.
const (
	// ReasonDenied: the session's principal lost the right to lock the path.
	ReasonDenied = "permission_denied"
	// ReasonRemoved: the master revoked a grant because its caller was gone.
	ReasonRemoved = "removed"
	// ReasonReplaced: a transaction of another principal released the lock.
	// ReasonForced covers any other release by another principal or an
	// operator.
	ReasonReplaced = "replaced"
)

// Event reports something that happened to a session. It is sent until it is
// acknowledged.
type Event struct {
	Seq       uint64 `json:"seq"`
	Type      string `json:"type"`
	Path      string `json:"path"`
	Handle    string `json:"handle"`
	Mode      Mode   `json:"mode,omitempty"`
	Token     uint64 `json:"token,omitempty"`
	Sequencer string `json:"sequencer,omitempty"`
	Reason    string `json:"reason,omitempty"`
}
