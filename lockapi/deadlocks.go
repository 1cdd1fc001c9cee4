package lockapi

import "time"

// RouteDeadlocks is the route of the search for cycles of waits.
const RouteDeadlocks = "/v1/deadlocks"

// Bounds of an answer. The answer also ends with the cycle that brings it to
// PageBytes.
const (
	MaxDeadlocks     = 100  // number of cycles
	MaxDeadlockLinks = 1000 // links of one cycle
)

// Deadlocks are cycles of sessions. Each session waits for a lock that the next
// session holds, and the last waits for the first. A cycle is a deadlock only
// if each session keeps its hold until it gets the other lock, which the cell
// cannot know. Cycles with a path that the caller may not read are omitted.
// There are at most MaxDeadlocks.
type Deadlocks struct {
	Deadlocks []Deadlock `json:"deadlocks"`
}

// Deadlock is one cycle.
type Deadlock struct {
	Links     []DeadlockLink `json:"links"`
	MoreLinks int            `json:"more_links,omitempty"` // number of links beyond MaxDeadlockLinks
}

// DeadlockLink is one session of a cycle and its wait for the lock at Path.
// The session of the next link holds that lock, with Token.
type DeadlockLink struct {
	Session     string    `json:"session"`
	SessionName string    `json:"session_name"`
	Principal   string    `json:"principal,omitempty"`
	Path        string    `json:"path"`
	Handle      string    `json:"handle"`
	Mode        Mode      `json:"mode"`
	Since       time.Time `json:"since"`
	WaitingMS   int64     `json:"waiting_ms"`
	Token       uint64    `json:"token"`
}
