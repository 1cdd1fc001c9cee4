package lockapi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

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
