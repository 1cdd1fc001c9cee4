package lockapi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Header names of the contract.
const (
	HeaderEpoch          = "Stout-Epoch"      // reply: the master's epoch
	HeaderMaster         = "Stout-Master"     // reply: base URL of the master's API, if known
	HeaderCell           = "Stout-Cell"       // reply: the cell's id
	HeaderRequestID      = "Stout-Request-Id" // reply: id of the call in the audit log, if it is logged
	HeaderStale          = "Stout-Stale"      // reply: "true" if the answer may be out of date
	HeaderForward        = "Stout-Forward"    // request: "never" asks for 421 instead of forwarding
	HeaderIdempotencyKey = "Idempotency-Key"  // request: lets the request that opens a session be repeated
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
	RoutePage       = "/ui/" // web page; its files are below
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
	MaxPriority            = 100
	MaxIdempotencyKeyBytes = 128
	DefaultListLimit       = 100
	MaxListLimit           = 1_000
	MaxWaiters             = 1_000 // queue positions in one reply
)

// Bounds of replies. If metadata does not fit, it is omitted for whole
// sessions; reading the session returns it.
const (
	MaxHolders        = 10_000   // holders of a lock in a reply
	MaxReplyMeta      = 64 << 10 // bytes of metadata, as JSON, for all holders and waiters in a reply
	MaxRefusalHolders = 100      // holders in a lock_held
	MaxRefusalMeta    = 4 << 10  // bytes of metadata in a lock_held
	PageBytes         = 1 << 20  // a page ends with the item that brings it to this size
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

// LockRequest requests a lock. Start from NewLockRequest, which sets the
// defaults.
type LockRequest struct {
	Session     string `json:"session"`
	Handle      string `json:"handle"`
	Mode        Mode   `json:"mode"`
	Limit       int64  `json:"limit"`
	WaitMS      int64  `json:"wait_ms"`
	Queue       bool   `json:"queue"`
	LockDelayMS int64  `json:"lock_delay_ms"`
	// Priority puts the queue position before those of lower priority.
	Priority int64 `json:"priority,omitempty"`
	// With are further locks, at most MaxSet-1, in the same mode. The request
	// gets all locks at once or none, and waits for all in one queue position.
	With []string `json:"with,omitempty"`
}

// NewLockRequest returns a request with all defaults.
func NewLockRequest(session string) LockRequest {
	return LockRequest{Session: session, Mode: Exclusive}
}

// Validate reports the first invalid field, or nil.
func (r *LockRequest) Validate() error {
	if r.Session == "" {
		return Invalid("session", "session is missing; give the id of an open session")
	}
	if err := ValidateHandle(r.Handle); err != nil {
		return err
	}
	if !r.Mode.Valid() {
		return Invalid("mode", "mode is %q; it must be %q or %q", Clip(string(r.Mode)), Exclusive, Shared)
	}
	if err := within("limit", r.Limit, 0, MaxLimit); err != nil {
		return err
	}
	if r.Mode == Exclusive && r.Limit != 0 {
		return Invalid("limit", "limit is %d; only mode %q has a limit", r.Limit, Shared)
	}
	return cmp.Or(within("wait_ms", r.WaitMS, 0, MaxWaitMS), within("priority", r.Priority, 0, MaxPriority),
		r.validateSet(), within("lock_delay_ms", r.LockDelayMS, 0, MaxLockDelayMS))
}

// MaxSet is how many locks one request may acquire.
const MaxSet = 16

func (r *LockRequest) validateSet() error {
	if len(r.With) >= MaxSet {
		return Invalid("with", "the request is for %d locks; at most %d are allowed", len(r.With)+1, MaxSet)
	}
	for i, path := range r.With {
		if err := ValidatePath(path); err != nil {
			return Invalid("with", "with has a path that is not valid: %s", err.(*Error).Detail)
		}
		if slices.Contains(r.With[:i], path) {
			return Invalid("with", "with has path %q twice", Clip(path))
		}
	}
	return nil
}

// ValidateHandle reports an invalid handle, or nil. A handle is up to 64 bytes
// of UTF-8 and may be empty.
func ValidateHandle(handle string) error {
	if len(handle) > MaxHandleBytes {
		return Invalid("handle", "the handle has %d bytes; at most %d are allowed", len(handle), MaxHandleBytes)
	}
	if !utf8.ValidString(handle) {
		return Invalid("handle", "the handle is not valid UTF-8")
	}
	return nil
}

// States of a lock and of a request for a lock.
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
	// With has the grants of the other locks of the request, in its order.
	With []GrantPart `json:"with,omitempty"`
}

// GrantPart is the grant of one of several locks.
type GrantPart struct {
	Path      string `json:"path"`
	Token     uint64 `json:"token"`
	Sequencer string `json:"sequencer"`
}

// Released is the answer to a release.
type Released struct {
	Released bool `json:"released"`
}

// Holder is one present grant of a lock.
type Holder struct {
	Session     string `json:"session"`
	SessionName string `json:"session_name"`
	// SessionMeta is nil if the session has no metadata, or if the reply had no
	// room for it (MaxReplyMeta, MaxRefusalMeta).
	SessionMeta map[string]string `json:"session_meta,omitempty"`
	Handle      string            `json:"handle"`
	Mode        Mode              `json:"mode"`
	Token       uint64            `json:"token"`
	GrantedAt   time.Time         `json:"granted_at"`
	// LockDelayMS is how long the lock stays unavailable if the session
	// expires.
	LockDelayMS int64  `json:"lock_delay_ms,omitempty"`
	Principal   string `json:"principal,omitempty"` // owner of the session
}

// HeldBy describes the holders of a lock in a few words: the first, and how
// many more there are.
func HeldBy(holders []Holder, more int) string {
	if len(holders) == 0 {
		return "waited for by others"
	}
	first, by := &holders[0], "a session without a name"
	if first.SessionName != "" {
		by = strconv.Quote(first.SessionName)
	}
	text := fmt.Sprintf("held by %s with token %d", by, first.Token)
	if more += len(holders) - 1; more > 0 {
		text += fmt.Sprintf(", and by %d more", more)
	}
	return text
}

// Waiter is one queue position of a lock.
type Waiter struct {
	Session     string            `json:"session"`
	SessionName string            `json:"session_name"`
	SessionMeta map[string]string `json:"session_meta,omitempty"` // as in Holder
	Handle      string            `json:"handle"`
	Mode        Mode              `json:"mode"`
	Position    int               `json:"position"` // 1 is next
	// Since is when the session joined the queue, by the clock of the master at
	// that time. Changes of master and repeated calls do not change it.
	Since time.Time `json:"since"`
	// WaitingMS is the time since then, by the clock of the answering replica.
	WaitingMS int64  `json:"waiting_ms"`
	Priority  int64  `json:"priority,omitempty"`
	Principal string `json:"principal,omitempty"` // owner of the session
	// Set is how many locks the position waits for together; 0 for one. Such a
	// position may be next although this lock is free.
	Set int `json:"set,omitempty"`
}

// Lock is the state of one lock.
type Lock struct {
	Path  string `json:"path"`
	State string `json:"state"`
	Mode  Mode   `json:"mode,omitempty"`
	Limit int64  `json:"limit"`
	// Holders are in the order of their grants. At most MaxHolders are listed,
	// the first ones; MoreHolders counts the others.
	Holders          []Holder `json:"holders"`
	MoreHolders      int      `json:"more_holders,omitempty"`
	Waiters          int      `json:"waiters"`
	DelayRemainingMS int64    `json:"delay_remaining_ms"`
	// Queue lists the first queue positions in order, as many as requested;
	// absent if none were requested.
	Queue []Waiter `json:"queue,omitzero"`
}

// LockList is one page of locks in bytewise order of their paths.
type LockList struct {
	Locks []Lock `json:"locks"`
	Next  string `json:"next,omitempty"`
}

// SequencerCheck reports whether the grant of a sequencer is held now.
type SequencerCheck struct {
	Valid  bool   `json:"valid"`
	Reason string `json:"reason,omitempty"`
}

// Roles of a replica.
const (
	RoleMaster   = "master"
	RoleReplica  = "replica"
	RoleNonvoter = "nonvoter"
	RoleNone     = "none" // the replica's directory is not a member yet
)

// Cell is the state of a cell. The counts come from the master and are absent
// without one.
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
	Access   bool       `json:"access"` // whether access control is on
	// Level determines which releases can run in the cell: only releases that know this level. The master raises it to the highest level that all members know;
	// see docs/operations.md, Upgrades.
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
	// Fault is why the replica does not follow the master, as far as the master
	// knows.
	Fault string `json:"fault,omitempty"`
	// Unreached lists the members that do not answer this replica's calls.
	Unreached []string `json:"unreached,omitempty"`
}

// Promise is a replica's promise to accept no master other than the one named,
// and its remaining time.
type Promise struct {
	To          string `json:"to"`
	RemainingMS int64  `json:"remaining_ms"`
}

// TransferRequest makes another replica master: any suitable one if To is
// empty.
type TransferRequest struct {
	To string `json:"to"`
}

// Transferred names the master after a transfer.
type Transferred struct {
	Master string `json:"master"`
}

// ValidateKey reports an invalid idempotency key, or nil.
func ValidateKey(key string) error {
	if len(key) > MaxIdempotencyKeyBytes {
		return Invalid(HeaderIdempotencyKey, "the key has %d bytes; at most %d are allowed", len(key), MaxIdempotencyKeyBytes)
	}
	if !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return Invalid(HeaderIdempotencyKey, "the key must be valid UTF-8 without NUL")
	}
	return nil
}

func within(field string, value, low, high int64) error {
	if value < low || value > high {
		return Invalid(field, "%s is %d; it must be within %d..%d", field, value, low, high)
	}
	return nil
}
