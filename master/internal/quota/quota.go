// Package quota bounds what clients may use.
//
// The state counts the use of the whole cell. A Ledger counts what calls under
// way may add, and what each session has. It admits a call only if everything
// together is within the quotas. Rights, waiting and the log do not belong
// here, nor do the bounds on connections and watchers.
//
// # Why no quota is exceeded
//
// Consider the maximum that the state can reach. Each call under way may be
// applied or not, in any order, and behind deletions and releases that are not
// even requested yet. One path, one handle and one idempotency key each hold one
// thing at a time. So the maximum is at most the state plus, in full, what each
// call under way writes.
//
// A call raises the maximum by no more than it adds to the present state: an
// overwritten file counts by the difference. The Ledger compares the state, the
// calls under way and this addition with the quotas. It then counts the call in
// full until its outcome is known. A call that adds nothing
// is not refused.
//
// The same holds for each principal. It owns the files that it wrote last. A
// write under way may make a file the writer's, so it counts in full for the
// writer, and another principal's write only takes files away.
//
// Near a bound a call may be refused because of calls under way that turn out
// to use less. A call that is alone is refused only if it does not fit.
package quota

import (
	"sync/atomic"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// Quotas bound what sessions may use in the cell. 0 means no bound.
//
// They are a setting of each replica; the master's settings apply. Existing use
// stays, however low a quota is set.
//
// The state could refuse as well, by limits that an office's opening brings
// into the log. But then the estimates of memory would decide the result of a
// command, and could change only with the cell's level.
type Quotas struct {
	// Sessions bounds the open sessions.
	Sessions int64
	// Holds bounds the grants and queue positions together, because a
	// position becomes a grant by itself; Waiters bounds the positions
	// alone.
	Holds, Waiters int64
	// Files bounds the number of files, and Content their total bytes of
	// content.
	Files, Content int64
	// Bytes bounds the memory of the state, as State.Bytes estimates it.
	Bytes int64
	// The same for each single session. Its bytes count its name and
	// metadata, its holds and waits, and its remembered answers.
	SessionHolds, SessionWaiters, SessionBytes int64
}

// Kind is one of the quotas.
type Kind int

// The kinds. The quotas of a single session come first, then the quotas of
// a principal in the order of access.Resources: a call that exceeds several
// quotas is refused because of the first one, and the caller can do something
// about its own session. The Ledger does not check PrincipalWatches and
// PrincipalCalls.
const (
	SessionHolds Kind = iota
	SessionWaiters
	SessionBytes
	PrincipalSessions
	PrincipalHolds
	PrincipalWaiters
	PrincipalFiles
	PrincipalBytes
	PrincipalWatches
	PrincipalCalls
	Sessions
	Holds
	Waiters
	Files
	Content
	Bytes
	Kinds // how many there are
)

// OfPrincipal reports whether a quota bounds one principal.
func (k Kind) OfPrincipal() bool { return k >= PrincipalSessions && k < Sessions }

// Resource returns what a quota of a principal bounds.
func (k Kind) Resource() access.Resource {
	return access.Resource(k-PrincipalSessions) + access.Sessions
}

// OfCell reports whether a quota bounds the whole cell.
func (k Kind) OfCell() bool { return k >= Sessions }

// texts are the texts of a quota: the name of its setting, what it counts, and
// how to make room.
var texts = [Kinds]struct{ name, counts, remedy string }{
	Sessions:          {"max-sessions", "the cell has %d open sessions", "close sessions that are not needed, or have the quota raised"},
	Holds:             {"max-holds", "the cell has %d holds and places in queues", "release what is not needed, or have the quota raised"},
	Waiters:           {"max-waiters", "the cell has %d places in queues", "try without wait_ms and queue, or have the quota raised"},
	Files:             {"max-files", "the cell has %d files", "delete files that are not needed, or have the quota raised"},
	Content:           {"max-content", "the cell's files have %d bytes of content", "delete files that are not needed, or have the quota raised"},
	Bytes:             {"max-bytes", "the cell's state takes %d bytes", "close sessions, release locks and delete files that are not needed, or have the quota raised"},
	PrincipalSessions: {"sessions", "it has %d open sessions", "close sessions that are not needed, or have the quota raised"},
	PrincipalHolds:    {"holds", "its sessions have %d holds and places in queues", "release what is not needed, or have the quota raised"},
	PrincipalWaiters:  {"waiters", "its sessions have %d places in queues", "try without wait_ms and queue, or have the quota raised"},
	PrincipalFiles:    {"files", "it was the last to write %d files", "delete files that are not needed, or have the quota raised"},
	PrincipalBytes:    {"bytes", "its sessions and files take %d bytes of the state", "close sessions, release locks and delete files that are not needed, or have the quota raised"},
	PrincipalWatches:  {name: "watches"},
	PrincipalCalls:    {name: "calls_per_second"},
	SessionHolds:      {"max-session-holds", "the session has %d holds and places in queues", "release what is not needed, use further sessions, or have the quota raised"},
	SessionWaiters:    {"max-session-waiters", "the session has %d places in queues", "leave queues, use further sessions, or have the quota raised"},
	SessionBytes:      {"max-session-bytes", "the session takes %d bytes of the state", "release what is not needed, use further sessions, or have the quota raised"},
}

// Name returns the name of the setting.
func (k Kind) Name() string { return texts[k].name }

// All returns the values of the quotas. Those of principals are not settings.
func (q *Quotas) All() [Kinds]int64 {
	return [Kinds]int64{SessionHolds: q.SessionHolds, SessionWaiters: q.SessionWaiters, SessionBytes: q.SessionBytes,
		Sessions: q.Sessions, Holds: q.Holds, Waiters: q.Waiters, Files: q.Files, Content: q.Content, Bytes: q.Bytes}
}

// Sums are the quantities that quotas bound.
type Sums struct {
	Sessions, Holds, Waiters, Files, Content, Bytes int64

	SessionBytes int64 // the part of Bytes that counts for the session
	rules        int64
}

// All returns the sums in the order of the kinds.
func (s *Sums) All() [Kinds]int64 {
	return [Kinds]int64{SessionHolds: s.Holds, SessionWaiters: s.Waiters, SessionBytes: s.SessionBytes,
		PrincipalSessions: s.Sessions, PrincipalHolds: s.Holds, PrincipalWaiters: s.Waiters, PrincipalFiles: s.Files, PrincipalBytes: s.Bytes,
		Sessions: s.Sessions, Holds: s.Holds, Waiters: s.Waiters, Files: s.Files, Content: s.Content, Bytes: s.Bytes}
}

// ofSession returns the part of the sums that counts for the principal of a
// session.
func (s *Sums) ofSession() Sums {
	return Sums{Sessions: s.Sessions, Holds: s.Holds, Waiters: s.Waiters, Bytes: s.SessionBytes}
}

// ofFiles returns the part of the sums that counts for the writer of files.
func (s *Sums) ofFiles() Sums { return Sums{Files: s.Files, Bytes: s.Bytes - s.SessionBytes} }

func (s *Sums) add(more *Sums, times int64) {
	s.Sessions += times * more.Sessions
	s.Holds += times * more.Holds
	s.Waiters += times * more.Waiters
	s.Files += times * more.Files
	s.Content += times * more.Content
	s.Bytes += times * more.Bytes
	s.SessionBytes += times * more.SessionBytes
	s.rules += times * more.rules
}

// SumsOf returns the sums of the whole cell.
func SumsOf(s *state.State) Sums {
	return Sums{Sessions: int64(s.SessionCount()), Holds: int64(s.HoldCount() + s.WaitCount()), Waiters: int64(s.WaitCount()),
		Files: int64(s.FileCount()), Content: s.ContentBytes(), Bytes: s.Bytes()}
}

// Refusals counts the calls that each quota refused, over all offices of a
// replica.
type Refusals [Kinds]atomic.Int64

// When to try again, in seconds: sessions and holds rarely end within
// milliseconds, calls under way do.
const (
	retryAfter = 5
	retrySoon  = 1
)

// Excess is the quota for which a call is refused.
type Excess struct {
	kind               Kind
	principal          string // that has the quota; empty for others
	most, used, wanted int64
	soon               bool // it would fit without the calls under way
}

// err reports that the call had no effect because of a quota.
func (e *Excess) err() error {
	text, of := texts[e.kind], ""
	if e.principal != "" {
		of = " of " + e.principal
	}
	err := lockapi.TooMany(text.name, e.used, e.most, "quota %s%s is used up: "+text.counts+", at most %d are allowed, and the call needs %d more; %s",
		text.name, of, e.used, e.most, e.wanted, text.remedy)
	err.RetryAfter, err.Principal = retryAfter, e.principal
	if e.soon {
		err.RetryAfter = retrySoon
	}
	return err
}
