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
	FileService
	EventService
	Office
	MemberService
	Observer
}

// Office serves calls.
type Office interface {
	// Do serves a call: see master.Master.
	Do(ctx context.Context, by master.Caller, stale bool, c lockapi.Call) (any, master.Outcome, error)
	// Judge judges a call that this replica answers itself, by its own state.
	Judge(by *master.Caller) error
}

// Locator finds the master.
type Locator interface {
	// Known is what this replica knows now. It never blocks while Hangs is nil.
	Known() Location
	// Hangs is why this replica cannot serve, for a reason of its own; nil while it
	// can. It never blocks.
	Hangs() error
	// Locate waits a bounded time for a master to be known; no_master if none is.
	Locate(ctx context.Context) (Location, error)
}

// SessionService is the calls about sessions. Those that are not stale reads
// answer no_master on a replica that is not the master.
type SessionService interface {
	OpenSession(ctx context.Context, req master.OpenSessionRequest) (lockapi.Session, error)
	Keepalive(ctx context.Context, req master.KeepaliveRequest) (lockapi.Keepalive, error)
	CloseSession(ctx context.Context, req master.CloseSessionRequest) error
	Session(ctx context.Context, q master.SessionQuery) (lockapi.SessionState, error)
	Sessions(ctx context.Context, q master.SessionsQuery) (lockapi.SessionList, error)
	// CrowdedSession says, from this replica's own state and without blocking,
	// that the answer about one session is as long as a list.
	CrowdedSession(id string) bool
}

// LockService is the calls about locks. Those that are not stale reads answer
// no_master on a replica that is not the master.
type LockService interface {
	Acquire(ctx context.Context, req master.AcquireRequest) (lockapi.Grant, error)
	Release(ctx context.Context, req master.ReleaseRequest) (lockapi.Released, error)
	Lock(ctx context.Context, q master.LockQuery) (lockapi.Lock, error)
	Locks(ctx context.Context, q master.LocksQuery) (lockapi.LockList, error)
	// CrowdedLock says, from this replica's own state and without blocking, that
	// the answer about one lock is as long as a list.
	CrowdedLock(path string) bool
	CheckSequencer(ctx context.Context, q master.SequencerQuery) (lockapi.SequencerCheck, error)
	Deadlocks(ctx context.Context, r master.Read) (lockapi.Deadlocks, error)
}

// FileService is the calls about files, and those of several things at once. Those that are not stale reads answer
// no_master on a replica that is not the master.
type FileService interface {
	WriteFile(ctx context.Context, w master.FileWrite) (master.FileWritten, error)
	DeleteFiles(ctx context.Context, d master.FileDelete) (master.FilesDeleted, error)
	File(ctx context.Context, q master.FileQuery) (master.FileRead, error)
	Transact(ctx context.Context, req master.TransactionRequest) (master.TransactionDone, error)
	Files(ctx context.Context, p master.FilePage) (lockapi.FileList, error)
}

// EventService is the cell's events, of this replica's own log. It never blocks, and
// needs no master but for the linearizable Revision, and to have caught up with one.
type EventService interface {
	// Revision is the present one.
	Revision(ctx context.Context, r master.Read) (uint64, error)
	// WatchEvents reads those after a revision, and wakes its reader. The error is
	// no_master where the replica does not answer by its own state.
	WatchEvents(f master.EventFilter) (master.EventWatch, error)
	// History looks back at one path.
	History(ctx context.Context, q master.HistoryQuery) (lockapi.History, error)
}

// MemberService tells of the members of the cell, and changes them.
type MemberService interface {
	// CellID is the cell's id, and Directory that of this replica's data
	// directory.
	CellID() string
	Directory() string
	// MemberList is who the members are and how they are; on a replica that is not
	// the master no_master, unless stale: it is this replica's own view then.
	MemberList(ctx context.Context, r master.Read) (lockapi.Members, error)
	// URLs is where they are called; on a replica that is not the master no_master,
	// unless stale.
	URLs(ctx context.Context, r master.Read) (lockapi.URLs, error)
	// Replace begins to put another directory in a member's place; no_master on a
	// replica that is not the master.
	Replace(ctx context.Context, req master.ReplaceRequest) error
	// Add, Set and Remove change the members; no_master on a replica that is not the
	// master, or has just handed over because it is itself to go.
	Add(ctx context.Context, req master.AddRequest) error
	Set(ctx context.Context, req master.SetRequest) (lockapi.Member, error)
	Remove(ctx context.Context, req master.RemoveRequest) error
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
	// Backup is a backup of the cell as of now; no_master on a replica that is not
	// the master.
	Backup(ctx context.Context, r master.Read) (master.Backup, error)
	// Transfer hands mastership to another replica.
	Transfer(ctx context.Context, req master.TransferRequest) (lockapi.Transferred, error)
	// Ready is nil while this replica is the master, or hears of one and answers stale
	// reads; else the reason why it is not ready.
	Ready() error
}
