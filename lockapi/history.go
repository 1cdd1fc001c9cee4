package lockapi

import "time"

// RouteHistory is the route of what happened at one path.
const RouteHistory = "/v1/history"

// DefaultHistoryLimit is how many events of a path its history shows.
const DefaultHistoryLimit = 20

// History is what a replica remembers of the lock and the file at a path.
type History struct {
	Path string `json:"path"`
	// Events are those of the path, newest first, with the changes of master
	// among them.
	Events []PastEvent `json:"events"`
	// More says that the replica remembers older events of the path.
	More bool `json:"more,omitempty"`
	// Oldest is the revision after which the replica remembers everything, and
	// Since when the oldest thing that it remembers came about; nil where there is
	// none.
	Oldest uint64     `json:"oldest"`
	Since  *time.Time `json:"since,omitempty"`
	// Revision is that up to which everything is told.
	Revision uint64 `json:"revision"`
}

// PastEvent is one event of a history: the fields of a CellEvent without the
// content, and how it came about. What has no meaning for the type is left out.
type PastEvent struct {
	Revision uint64    `json:"revision"`
	Type     EventType `json:"type"`
	// At is when it came about, by the clock of the master then. It never goes
	// back within a cell.
	At     time.Time `json:"at"`
	Path   string    `json:"path,omitempty"`
	Reason string    `json:"reason,omitempty"`
	// By is the principal who did it: who released, closed, wrote or deleted. It is
	// empty where nobody is known, and of what the cell did by itself.
	By string `json:"by,omitempty"`

	// Of locks: the session that holds, held or waits, whose it was, and its ttl.
	// Session is that of an ephemeral file, too.
	Session     string `json:"session,omitempty"`
	SessionName string `json:"session_name,omitempty"`
	Principal   string `json:"principal,omitempty"`
	TTLMS       int64  `json:"ttl_ms,omitempty"`
	Handle      string `json:"handle,omitempty"`
	Mode        Mode   `json:"mode,omitempty"`
	Token       uint64 `json:"token,omitempty"`
	// WaitedMS is how long the session of an EventLockAcquired stood in the queue;
	// nil where it got the lock at once.
	WaitedMS *int64 `json:"waited_ms,omitempty"`
	// HeldMS is for how long the grant of an EventLockReleased was held.
	HeldMS *int64 `json:"held_ms,omitempty"`
	// SilentMS is how long before the end of an expired session the last keepalive
	// came. A master that took office since counts from then; nil where that is not
	// known.
	SilentMS *int64 `json:"silent_ms,omitempty"`

	// Of files.
	Generation uint64 `json:"generation,omitempty"`
	Size       int    `json:"size,omitempty"`

	// Of EventMasterChanged.
	Epoch  uint64 `json:"epoch,omitempty"`
	Master string `json:"master,omitempty"`
}
