package server

import (
	"context"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// Location says where the master is.
type Location = master.Location

var _ Master = (*master.Master)(nil)

// Master is what the server needs of the replica that it runs in, master or
// not. Its methods are safe for concurrent use. Every error they return is a
// *lockapi.Error; requests given to them have passed their Validate.
type Master interface {
	Locator
	SessionService
	LockService
	MemberService
	Observer
}

// Locator finds the master.
type Locator interface {
	// Known is what this replica knows now. It never blocks.
	Known() Location
	// Locate waits a bounded time for a master to be known; no_master if none is.
	Locate(ctx context.Context) (Location, error)
}

// SessionService is the calls about sessions. Those that are not stale reads answer
// no_master on a replica that is not the master.
type SessionService interface {
	OpenSession(ctx context.Context, req lockapi.SessionRequest, key string) (lockapi.Session, error)
	Keepalive(ctx context.Context, id string, req lockapi.KeepaliveRequest) (lockapi.Keepalive, error)
	CloseSession(ctx context.Context, id string) error
	Session(ctx context.Context, id string, stale bool) (lockapi.SessionState, error)
	Sessions(ctx context.Context, after string, limit int, stale bool) (lockapi.SessionList, error)
	// CrowdedSession says, from this replica's own state and without blocking, that
	// the answer about one session is as long as a list.
	CrowdedSession(id string) bool
}

// LockService is the calls about locks. Those that are not stale reads answer
// no_master on a replica that is not the master.
type LockService interface {
	Acquire(ctx context.Context, path string, req lockapi.LockRequest) (lockapi.Grant, error)
	// Release ends the hold or the wait of (session, handle); with a token other
	// than 0 only that very grant.
	Release(ctx context.Context, path, session, handle string, token uint64) (lockapi.Released, error)
	// Lock reads a lock with the first places in its queue, at most waiters of them.
	Lock(ctx context.Context, path string, waiters int, stale bool) (lockapi.Lock, error)
	Locks(ctx context.Context, prefix, after string, limit int, stale bool) (lockapi.LockList, error)
	// CrowdedLock says, from this replica's own state and without blocking, that the
	// answer about one lock is as long as a list.
	CrowdedLock(path string) bool
	CheckSequencer(ctx context.Context, s lockapi.Sequencer, stale bool) (lockapi.SequencerCheck, error)
}

// MemberService tells of the members of the cell, and changes them.
type MemberService interface {
	// CellID is the cell's id, and Directory that of this replica's data directory.
	CellID() string
	Directory() string
	// MemberList is who the members are and how they are; on a replica that is not
	// the master no_master, unless stale: it is this replica's own view then.
	MemberList(ctx context.Context, stale bool) (lockapi.Members, error)
	// Replace begins to put another directory in a member's place; no_master on a
	// replica that is not the master.
	Replace(ctx context.Context, id string, req lockapi.ReplaceMemberRequest) error
}

// Observer tells of the cell and its replicas, and hands mastership over.
type Observer interface {
	// Cell is this replica's own view: every replica with id, url, raft_addr and
	// role, its own entry complete; lease and counts only while in office.
	Cell() lockapi.Cell
	// Replica is this replica's own entry, with version and uptime_ms.
	Replica() lockapi.Replica
	// Vitals are the figures that metrics show.
	Vitals() master.Vitals
	// Quotas is how far each quota is used up.
	Quotas() []master.QuotaUse
	// Transfer hands mastership to the named replica, or to any where to is "".
	Transfer(ctx context.Context, to string) (lockapi.Transferred, error)
	// Ready is nil while this replica is the master or hears of one, else the
	// reason why it is not ready.
	Ready() error
}
