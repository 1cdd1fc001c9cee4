package lockapi

import "time"

// RouteDeadlocks is the route of the sessions that wait for each other.
const RouteDeadlocks = "/v1/deadlocks"

// Bounds of an answer. It also ends with the circle that makes it PageBytes long.
const (
	MaxDeadlocks     = 100  // circles
	MaxDeadlockLinks = 1000 // of one circle
)

// Deadlocks are circles of sessions each of which waits for a lock because of the
// next one, and the last because of the first. Circles with a path that the caller may
// not read are left out. There are at most MaxDeadlocks.
type Deadlocks struct {
	Deadlocks []Deadlock `json:"deadlocks"`
}

// Deadlock is one circle.
type Deadlock struct {
	Links     []DeadlockLink `json:"links"`
	MoreLinks int            `json:"more_links,omitempty"` // beyond MaxDeadlockLinks
}

// DeadlockLink is a session of a circle with what it waits for: the lock at Path,
// because of the session of the next link. That holds it with Token, where it is not
// 0, or has a place in the queue ahead of it.
type DeadlockLink struct {
	Session     string    `json:"session"`
	SessionName string    `json:"session_name"`
	Principal   string    `json:"principal,omitempty"`
	Path        string    `json:"path"`
	Handle      string    `json:"handle"`
	Mode        Mode      `json:"mode"`
	Since       time.Time `json:"since"`
	WaitingMS   int64     `json:"waiting_ms"`
	Token       uint64    `json:"token,omitempty"`
}
