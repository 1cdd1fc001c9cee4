package lockapi

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Header names of the contract.
const (
	HeaderEpoch          = "Stout-Epoch"      // reply: the master's term of office
	HeaderMaster         = "Stout-Master"     // reply: base URL of the master's API, where one is known
	HeaderCell           = "Stout-Cell"       // reply: the cell's id
	HeaderRequestID      = "Stout-Request-Id" // reply: by which the audit log has the call, where it has
	HeaderStale          = "Stout-Stale"      // reply: "true" where the answer may be out of date
	HeaderForward        = "Stout-Forward"    // request: "never" asks for 421 instead of forwarding
	HeaderIdempotencyKey = "Idempotency-Key"  // request: makes opening a session repeatable
	ForwardNever         = "never"
	ConsistencyStale     = "stale" // value of the query parameter consistency
	ConsistencyLinear    = "linearizable"
)

// Routes of the contract. A lock's path follows RouteLocks directly.
const (
	RouteSessions   = "/v1/sessions"
	RouteKeepalives = "/v1/keepalives"
	RouteLocks      = "/v1/locks"
	RouteSequencers = "/v1/sequencers"
	RouteCell       = "/v1/cell"
	RouteReplica    = "/v1/replica"
	RouteMembers    = "/v1/members"
	RouteJoin       = "/v1/join"
	RouteTransfer   = "/v1/cell/transfer"
	RouteURLs       = "/v1/cell/urls"
	RouteOpenAPI    = "/v1/openapi.yaml"
	RouteLive       = "/livez"
	RouteReady      = "/readyz"
	RouteMetrics    = "/metrics"
	RoutePage       = "/ui/" // the page for people; its files follow
)

// Bounds and defaults of requests.
const (
	MaxBodyBytes           = 64 << 10
	DefaultTTLMS           = 12_000
	MinTTLMS               = 1_000
	MaxTTLMS               = 86_400_000
	MaxNameBytes           = 128
	MaxMetaPairs           = 16
	MaxHandleBytes         = 64
	MaxWaitMS              = 600_000
	MaxLockDelayMS         = 60_000
	MaxLimit               = 1_000_000
	MaxIdempotencyKeyBytes = 128
	DefaultListLimit       = 100
	MaxListLimit           = 1_000
	MaxWaiters             = 1_000 // queue positions that one read shows
)

// Bounds of replies. Metadata for which there is no room is left out, whole
// sessions at a time; reading the session shows it.
const (
	MaxHolders        = 10_000   // holders of a lock that a read shows
	MaxReplyMeta      = 64 << 10 // bytes of metadata, in JSON, beside all holders and waiters of a reply
	MaxRefusalHolders = 100      // holders that a lock_held shows
	MaxRefusalMeta    = 4 << 10  // bytes of metadata beside them
	PageBytes         = 1 << 20  // a page of a list ends with the item that makes it so long
)

// SessionRequest opens a session. Start from NewSessionRequest, which holds
// the defaults.
type SessionRequest struct {
	TTLMS int64             `json:"ttl_ms"`
	Name  string            `json:"name"`
	Meta  map[string]string `json:"meta,omitempty"`
}

// NewSessionRequest is a request with every default in place.
func NewSessionRequest() SessionRequest { return SessionRequest{TTLMS: DefaultTTLMS} }

// Validate reports the first field that is out of bounds as an
// invalid_argument, or nil.
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

// Session is one client's lease on the cell, as replies show it.
type Session struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	TTLMS     int64             `json:"ttl_ms"`
	Epoch     uint64            `json:"epoch"`
	CreatedAt time.Time         `json:"created_at"`
	Meta      map[string]string `json:"meta"`
	Principal string            `json:"principal,omitempty"` // whose it is; empty where nobody known has used it
}

// SessionState is a session with what it holds and waits for.
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
	// UnclaimedMS is there on a grant from a queue position that was not kept,
	// of which no caller was told: for how long it may still be asked for,
	// before it is taken back. To ask again (same session and handle) claims
	// it; to read it does not. 0 where the grant is claimed, and in stale
	// reads, which cannot tell.
	UnclaimedMS int64 `json:"unclaimed_ms,omitempty"`
}

// Wait is one queue position of a session; position 1 is next.
type Wait struct {
	Path     string `json:"path"`
	Handle   string `json:"handle"`
	Mode     Mode   `json:"mode"`
	Position int    `json:"position"`
}

// SessionList is one page of sessions in the order of their ids.
type SessionList struct {
	Sessions []SessionState `json:"sessions"`
	Next     string         `json:"next,omitempty"`
}

// KeepaliveRequest extends a session. The server holds the call for up to
// WaitMS; Ack is the highest event seq that the caller has seen.
type KeepaliveRequest struct {
	WaitMS int64  `json:"wait_ms"`
	Ack    uint64 `json:"ack"`
}

// Validate reports the first field that is out of bounds, or nil.
func (r *KeepaliveRequest) Validate() error {
	if r.Ack > MaxToken {
		return Invalid("ack", "ack is %d; it must be within 0..%d", r.Ack, uint64(MaxToken))
	}
	return within("wait_ms", r.WaitMS, 0, MaxWaitMS)
}

// Keepalive is the answer: the session's lease runs TTLMS from the moment that
// the caller sent the call + HeldMS.
type Keepalive struct {
	TTLMS  int64   `json:"ttl_ms"`
	HeldMS int64   `json:"held_ms"`
	Epoch  uint64  `json:"epoch"`
	Events []Event `json:"events"`
	// MembersRevision changes when the members of the cell or their URLs change.
	// It is not ordered, and the same at every master. 0 within a Keepalives.
	MembersRevision uint64 `json:"members_revision,omitempty"`
}

// MaxKeepalives bounds the sessions of a KeepalivesRequest.
const MaxKeepalives = 1000

// KeepalivesRequest extends up to MaxKeepalives sessions of one caller. The server
// holds the call for up to WaitMS, or until one of the sessions has something to
// report.
type KeepalivesRequest struct {
	Sessions []SessionAck `json:"sessions"`
	WaitMS   int64        `json:"wait_ms"`
}

// SessionAck names a session and the highest event seq that the caller has seen.
type SessionAck struct {
	ID  string `json:"id"`
	Ack uint64 `json:"ack"`
}

// Validate reports the first field that is out of bounds, or nil.
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
			return Invalid(field+".id", "%s.id is %q, which an entry before it names already", field, Clip(s.ID))
		case s.Ack > MaxToken:
			return Invalid(field+".ack", "%s.ack is %d; it must be within 0..%d", field, s.Ack, uint64(MaxToken))
		}
		seen[s.ID] = true
	}
	return within("wait_ms", r.WaitMS, 0, MaxWaitMS)
}

// Keepalives is the answer: an entry for each session, in the order of the request.
type Keepalives struct {
	Sessions        []KeptSession `json:"sessions"`
	MembersRevision uint64        `json:"members_revision"`
}

// KeptSession is a session that was extended, or why it was not.
type KeptSession struct {
	ID string `json:"id"`
	*Keepalive
	Error *Problem `json:"error,omitempty"`
}

// Types of events.
const (
	EventLockGranted = "lock_granted" // a grant that came after a 202
	// EventLockWithdrawn: a place in a queue that a 202 told of is gone, for Reason.
	// It has neither token nor sequencer.
	EventLockWithdrawn = "lock_withdrawn"
	// EventLockLost: the hold with this token has ended without the session's doing,
	// for Reason. It has neither mode nor sequencer.
	EventLockLost = "lock_lost"
)

// Reasons of events.
const (
	// ReasonDenied: the session's principal may not lock there any more.
	ReasonDenied = "permission_denied"
	// ReasonRemoved: the master took back a grant whose caller was gone.
	ReasonRemoved = "removed"
	// ReasonReplaced: another principal's transaction released the lock. ReasonForced,
	// otherwise: another principal or an operator did.
	ReasonReplaced = "replaced"
)

// Event is something that happened to a session. It comes again until it is
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

// LockRequest asks for a lock. Start from NewLockRequest, which holds the
// defaults.
type LockRequest struct {
	Session     string `json:"session"`
	Handle      string `json:"handle"`
	Mode        Mode   `json:"mode"`
	Limit       int64  `json:"limit"`
	WaitMS      int64  `json:"wait_ms"`
	Queue       bool   `json:"queue"`
	LockDelayMS int64  `json:"lock_delay_ms"`
}

// NewLockRequest is a request with every default in place.
func NewLockRequest(session string) LockRequest {
	return LockRequest{Session: session, Mode: Exclusive}
}

// Validate reports the first field that is out of bounds, or nil.
func (r *LockRequest) Validate() error {
	if r.Session == "" {
		return Invalid("session", "session is required: the id of an open session")
	}
	if err := ValidateHandle(r.Handle); err != nil {
		return err
	}
	if !r.Mode.Valid() {
		return Invalid("mode", "mode is %q; it is %q or %q", Clip(string(r.Mode)), Exclusive, Shared)
	}
	if err := within("limit", r.Limit, 0, MaxLimit); err != nil {
		return err
	}
	if r.Mode == Exclusive && r.Limit != 0 {
		return Invalid("limit", "limit is %d; it goes with mode %q only", r.Limit, Shared)
	}
	if err := within("wait_ms", r.WaitMS, 0, MaxWaitMS); err != nil {
		return err
	}
	return within("lock_delay_ms", r.LockDelayMS, 0, MaxLockDelayMS)
}

// ValidateHandle reports what is wrong with a handle, or nil. A handle is up
// to 64 bytes of UTF-8, and may be empty.
func ValidateHandle(handle string) error {
	if len(handle) > MaxHandleBytes {
		return Invalid("handle", "the handle has %d bytes; at most %d are allowed", len(handle), MaxHandleBytes)
	}
	if !utf8.ValidString(handle) {
		return Invalid("handle", "the handle is not valid UTF-8")
	}
	return nil
}

// States of a lock, and of a request for one.
const (
	StateFree    = "free"
	StateHeld    = "held"
	StateDelayed = "delayed"
	StateQueued  = "queued"
)

// Grant is the answer to a LockRequest: held with a token, or queued with a
// position (1 = next).
type Grant struct {
	Path      string     `json:"path"`
	State     string     `json:"state"`
	Session   string     `json:"session"`
	Handle    string     `json:"handle"`
	Mode      Mode       `json:"mode"`
	Token     uint64     `json:"token,omitempty"`
	Sequencer string     `json:"sequencer,omitempty"`
	GrantedAt *time.Time `json:"granted_at,omitempty"`
	Position  int        `json:"position,omitempty"`
}

// Released is the answer to a release.
type Released struct {
	Released bool `json:"released"`
}

// Holder is one present grant of a lock.
type Holder struct {
	Session     string `json:"session"`
	SessionName string `json:"session_name"`
	// SessionMeta is nil where the session has none, and where the reply had no
	// room for it (MaxReplyMeta, MaxRefusalMeta).
	SessionMeta map[string]string `json:"session_meta,omitempty"`
	Handle      string            `json:"handle"`
	Mode        Mode              `json:"mode"`
	Token       uint64            `json:"token"`
	GrantedAt   time.Time         `json:"granted_at"`
	// LockDelayMS is for how long nobody gets the lock should the session expire.
	LockDelayMS int64  `json:"lock_delay_ms,omitempty"`
	Principal   string `json:"principal,omitempty"` // whose the session is
}

// Waiter is one queue position of a lock.
type Waiter struct {
	Session     string            `json:"session"`
	SessionName string            `json:"session_name"`
	SessionMeta map[string]string `json:"session_meta,omitempty"` // as a Holder's
	Handle      string            `json:"handle"`
	Mode        Mode              `json:"mode"`
	Position    int               `json:"position"` // 1 is next
	// Since is when the position was taken, by the clock of the master that
	// took it. It stays the same over changes of master and calls that are sent
	// again.
	Since time.Time `json:"since"`
	// WaitingMS is how long ago that is, by the clock of the replica that
	// answers.
	WaitingMS int64  `json:"waiting_ms"`
	Principal string `json:"principal,omitempty"` // whose the session is
}

// Lock is the state of one lock.
type Lock struct {
	Path  string `json:"path"`
	State string `json:"state"`
	Mode  Mode   `json:"mode,omitempty"`
	Limit int64  `json:"limit"`
	// Holders are in the order of their grants. Of more than MaxHolders the
	// first ones are shown, and MoreHolders counts the others.
	Holders          []Holder `json:"holders"`
	MoreHolders      int      `json:"more_holders,omitempty"`
	Waiters          int      `json:"waiters"`
	DelayRemainingMS int64    `json:"delay_remaining_ms"`
	// Queue is the first queue positions in order, as many as were asked for;
	// absent where none were.
	Queue []Waiter `json:"queue,omitzero"`
}

// LockList is one page of locks in bytewise order of their paths.
type LockList struct {
	Locks []Lock `json:"locks"`
	Next  string `json:"next,omitempty"`
}

// SequencerCheck says whether a sequencer's very grant is held now.
type SequencerCheck struct {
	Valid  bool   `json:"valid"`
	Reason string `json:"reason,omitempty"`
}

// Roles of a replica.
const (
	RoleMaster   = "master"
	RoleReplica  = "replica"
	RoleNonvoter = "nonvoter"
	RoleNone     = "none" // of a replica whose directory is no member's yet
)

// Cell is the state of a cell. Counts are the master's, absent without one.
type Cell struct {
	Cell     string     `json:"cell"`
	Epoch    uint64     `json:"epoch"`
	Master   *MasterRef `json:"master"`
	Lease    Lease      `json:"lease"`
	Replicas []Replica  `json:"replicas"`
	Sessions *int       `json:"sessions,omitempty"`
	Locks    *int       `json:"locks,omitempty"`
	Waiters  *int       `json:"waiters,omitempty"`
	Files    *int       `json:"files,omitempty"`
	Access   bool       `json:"access"` // whether it is on
	// Level says which releases may be in the cell: those that know it. The master
	// raises it to what all members know; see docs/operations.md, Upgrades.
	Level uint64 `json:"level"`

	ContentBytes *int64 `json:"content_bytes,omitempty"` // of all files
}

// MasterRef names the master.
type MasterRef struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// Lease is the master's lease.
type Lease struct {
	Held         bool  `json:"held"`
	TermMS       int64 `json:"term_ms"`
	RemainingMS  int64 `json:"remaining_ms"`
	RenewedAgoMS int64 `json:"renewed_ago_ms"`
}

// Replica is one member of the cell. Directory, Version and UptimeMS are
// present only in the replica's own answer at RouteReplica.
type Replica struct {
	ID            string   `json:"id"`
	URL           string   `json:"url"`
	RaftAddr      string   `json:"raft_addr"`
	Role          string   `json:"role"`
	Healthy       bool     `json:"healthy"`
	LastContactMS int64    `json:"last_contact_ms"`
	AppliedIndex  uint64   `json:"applied_index"`
	Promise       *Promise `json:"promise"`
	Directory     string   `json:"directory,omitempty"`
	Version       string   `json:"version,omitempty"`
	UptimeMS      *int64   `json:"uptime_ms,omitempty"`
	// Fault is why the replica does not follow the master, as the master knows it.
	Fault string `json:"fault,omitempty"`
	// Unreached are the members that do not answer this replica's calls.
	Unreached []string `json:"unreached,omitempty"`
}

// Promise says for how long a replica lets no master act but the one named.
type Promise struct {
	To          string `json:"to"`
	RemainingMS int64  `json:"remaining_ms"`
}

// TransferRequest hands mastership over, to any replica where To is empty.
type TransferRequest struct {
	To string `json:"to"`
}

// Transferred names the master after a transfer.
type Transferred struct {
	Master string `json:"master"`
}

// ValidateKey reports what is wrong with an idempotency key, or nil.
func ValidateKey(key string) error {
	if len(key) > MaxIdempotencyKeyBytes {
		return Invalid(HeaderIdempotencyKey, "the key has %d bytes; at most %d are allowed", len(key), MaxIdempotencyKeyBytes)
	}
	if !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return Invalid(HeaderIdempotencyKey, "the key is not valid UTF-8")
	}
	return nil
}

func within(field string, value, low, high int64) error {
	if value < low || value > high {
		return Invalid(field, "%s is %d; it must be within %d..%d", field, value, low, high)
	}
	return nil
}
