package master

import (
	"sync/atomic"

	"github.com/stoutlock/stout/lockapi"
)

// Quotas bound what sessions may take up in the cell. 0 is no bound.
//
// They are a setting of each replica: those of the one in office count. The
// office is the only one that proposes, and it admits what would add to the
// state only where there is room for it besides all that it has admitted before
// (accounting). What is there already stays, however low a quota is set.
//
// The state could count and refuse as well, by limits that an office's opening
// brings into the log. But then the estimates of memory (usage.go) decide what
// a command does: they could change only with the cell's level, and be measured
// anew only then. And a release's room would be gone before the call for which
// it was kept comes to its turn in the log.
type Quotas struct {
	// Sessions bounds the open sessions.
	Sessions int64
	// Holds bounds the grants and the places in queues together, since each
	// place becomes a grant without anybody being asked; Waiters the places
	// alone.
	Holds, Waiters int64
	// Files bounds the files, and Content the bytes of content of them all.
	Files, Content int64
	// Bytes bounds the memory that the state takes, as estimated in usage.go.
	Bytes int64
	// The same for each single session. Its bytes are those of its name and
	// metadata, of all that it holds and waits for, and of the answers that are
	// remembered for it.
	SessionHolds, SessionWaiters, SessionBytes int64
}

// quotaKind is one of the quotas.
type quotaKind int

// Those of a single session stand first: where both leave no room, the caller
// is told of the one about which it can do something.
const (
	quotaSessionHolds quotaKind = iota
	quotaSessionWaiters
	quotaSessionBytes
	quotaSessions
	quotaHolds
	quotaWaiters
	quotaFiles
	quotaContent
	quotaBytes
	quotaKinds
)

// ofCell reports whether a quota is one of the whole cell.
func (k quotaKind) ofCell() bool { return k >= quotaSessions }

// quotaTexts are what people read of a quota: its name, which is that of the
// setting, what it counts, and what makes room.
var quotaTexts = [quotaKinds]struct{ name, counts, remedy string }{
	quotaSessions:       {"max-sessions", "the cell has %d open sessions", "close sessions that are not needed, or have the quota raised"},
	quotaHolds:          {"max-holds", "the cell has %d holds and places in queues", "release what is not needed, or have the quota raised"},
	quotaWaiters:        {"max-waiters", "the cell has %d places in queues", "try without wait_ms and queue, or have the quota raised"},
	quotaFiles:          {"max-files", "the cell has %d files", "delete files that are not needed, or have the quota raised"},
	quotaContent:        {"max-content", "the cell's files have %d bytes of content", "delete files that are not needed, or have the quota raised"},
	quotaBytes:          {"max-bytes", "the cell's state takes %d bytes", "close sessions, release locks and delete files that are not needed, or have the quota raised"},
	quotaSessionHolds:   {"max-session-holds", "the session has %d holds and places in queues", "release what is not needed, use further sessions, or have the quota raised"},
	quotaSessionWaiters: {"max-session-waiters", "the session has %d places in queues", "leave queues, use further sessions, or have the quota raised"},
	quotaSessionBytes:   {"max-session-bytes", "the session takes %d bytes of the state", "release what is not needed, use further sessions, or have the quota raised"},
}

// of is the value of a quota.
func (q *Quotas) of(k quotaKind) int64 {
	return [quotaKinds]int64{
		quotaSessions: q.Sessions, quotaHolds: q.Holds, quotaWaiters: q.Waiters, quotaFiles: q.Files, quotaContent: q.Content, quotaBytes: q.Bytes,
		quotaSessionHolds: q.SessionHolds, quotaSessionWaiters: q.SessionWaiters, quotaSessionBytes: q.SessionBytes,
	}[k]
}

// refusals counts the calls that each quota refused, over all offices of this
// replica.
type refusals [quotaKinds]atomic.Int64

// quotaRetryAfter is the advice, in seconds, for when to try again: room comes
// with the end of sessions and holds, which is no matter of milliseconds.
const quotaRetryAfter = 5

// errTooMany says that a call had no effect because of a quota.
func errTooMany(k quotaKind, most, used, wanted int64) *lockapi.Error {
	text := quotaTexts[k]
	e := lockapi.Errorf(lockapi.CodeTooMany, "quota %s is used up: "+text.counts+", at most %d are allowed, and the call needs %d more; %s",
		text.name, used, most, wanted, text.remedy)
	e.RetryAfter = quotaRetryAfter
	return e
}

// QuotaUse is how far a quota is used up.
type QuotaUse struct {
	Name    string // that of the setting
	Max     int64  // 0 for none
	Used    int64  // what there is, and what calls under way may add to it
	Known   bool   // Used is known: on the master, for quotas of the whole cell
	Refused int64  // calls that were refused since this replica started
}

// Quotas tells how far each quota is used up.
func (m *Master) Quotas() []QuotaUse {
	var used usage
	o := m.inOffice()
	if o != nil {
		used = o.accounting.ofCell()
	}
	out := make([]QuotaUse, quotaKinds)
	for k := range quotaKinds {
		out[k] = QuotaUse{Name: quotaTexts[k].name, Max: m.opts.Quotas.of(k), Refused: m.refused[k].Load()}
		if o != nil && k.ofCell() {
			out[k].Used, out[k].Known = used.of(k), true
		}
	}
	return out
}
