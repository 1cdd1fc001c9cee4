package lockapi

import "time"

// RouteHistory is the route of the past events of a path.
const RouteHistory = "/v1/history"

// DefaultHistoryLimit is the default number of events in a history.
const DefaultHistoryLimit = 20

// History is a replica's record of the lock and the file at a path.
type History struct {
	Path string `json:"path"`
	// Events are the events of the path and the changes of master, newest
	// first.
	Events []PastEvent `json:"events"`
	// More reports that the replica has older events of the path.
	More bool `json:"more,omitempty"`
	// The replica's record is complete after revision Oldest. Since is the time
	// of its oldest event, and nil if it has no event.
	Oldest uint64     `json:"oldest"`
	Since  *time.Time `json:"since,omitempty"`
	// Revision is the revision up to which the answer is complete.
	Revision uint64 `json:"revision"`
}

// PastEvent is one event of a history: the fields of a CellEvent without the
// content, and the cause. Fields without a meaning for the type are omitted.
type PastEvent struct {
	Revision uint64    `json:"revision"`
	Type     EventType `json:"type"`
	// At is the time of the event by the clock of the master at that time.
	// Times never decrease within a cell.
	At     time.Time `json:"at"`
	Path   string    `json:"path,omitempty"`
	Reason string    `json:"reason,omitempty"`
	// By is the principal that caused the event: it released, closed, wrote or
	// deleted. It is empty for an anonymous caller and for actions of the cell
	// itself.
	By string `json:"by,omitempty"`

	// For locks: the session that holds, held or waits, its principal, and its
	// ttl. Session is also set for an ephemeral file.
	Session     string `json:"session,omitempty"`
	SessionName string `json:"session_name,omitempty"`
	Principal   string `json:"principal,omitempty"`
	TTLMS       int64  `json:"ttl_ms,omitempty"`
	Handle      string `json:"handle,omitempty"`
	Mode        Mode   `json:"mode,omitempty"`
	Token       uint64 `json:"token,omitempty"`
	// WaitedMS is how long the session of an EventLockAcquired waited in the
	// queue; nil if it got the lock at once.
	WaitedMS *int64 `json:"waited_ms,omitempty"`
	// HeldMS is how long the grant of an EventLockReleased was held.
	HeldMS *int64 `json:"held_ms,omitempty"`
	// SilentMS is the time from the last keepalive of an expired session to its
	// end. If a new master took office in between, the time starts there. It is
	// nil if unknown.
	SilentMS *int64 `json:"silent_ms,omitempty"`

	// For files.
	Generation uint64 `json:"generation,omitempty"`
	Size       int    `json:"size,omitempty"`

	// For EventMasterChanged.
	Epoch  uint64 `json:"epoch,omitempty"`
	Master string `json:"master,omitempty"`
}
