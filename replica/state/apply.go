package state

import (
	"crypto/sha256"
	"fmt"
)

// Verdict says what a command came to.
type Verdict uint8

// The verdicts.
const (
	Refused   Verdict = iota // nothing happened: its batch was not accepted, or it makes no sense
	Done                     // it took effect
	Held                     // the pair holds the lock: Result.Hold
	Queued                   // the pair waits: Result.Wait
	Busy                     // not granted: others hold the lock or are before it
	Delayed                  // not granted: the lock is free but within its lock-delay
	Conflict                 // it contradicts what is there: Result.Clash
	NoSession                // the session does not live
	Nothing                  // there was nothing to do
)

func (v Verdict) String() string {
	names := [...]string{"refused", "done", "held", "queued", "busy", "delayed", "conflict", "no-session", "nothing"}
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("verdict-%d", uint8(v))
}

// Clash says what a Conflict is about.
type Clash uint8

// The clashes.
const (
	NoClash    Clash = iota
	ClashMode        // the pair holds or wants the path in another mode
	ClashLimit       // the pair holds or wants the path with another limit
	ClashOther       // the limit differs from that of the present holders and waiters
	ClashKey         // the idempotency key was used with another body
)

// Result is the outcome of one command.
type Result struct {
	Verdict Verdict
	Clash   Clash
	Hold    *Hold
	Wait    *Wait
	// Position is the place of a wait that was just queued; 0 for one that was
	// there before: to find that out takes a walk (State.Position).
	Position int
	Session  *Session
}

// EventKind says what an event tells.
type EventKind uint8

// The events. They tell the office what it has to do about a change: wake a
// call, start a timer, forget a session.
const (
	EventGranted   EventKind = 1 // Hold: a wait was granted
	EventWithdrawn EventKind = 2 // Wait: a place in the queue is gone without a grant
	EventReleased  EventKind = 3 // Hold: a grant ended
	EventOpened    EventKind = 4 // Session
	EventEnded     EventKind = 5 // Session; Expired says how
	// EventDelay: Path, DelayID, DelayMS. A lock-delay began. Where an earlier one
	// of the path is in force, the new number takes its place, to be ended when the
	// later of the two is over.
	EventDelay     EventKind = 6
	EventDelayOver EventKind = 7 // Path, DelayID
	EventMarked    EventKind = 8 // the state after the entry is to be summed
	EventSum       EventKind = 9 // Marked, Sum: the master's sum of the state after the entry Marked
)

// Event is a change that somebody may wait for. Index is the entry's.
type Event struct {
	Kind    EventKind
	Index   uint64
	Hold    *Hold
	Wait    *Wait
	Session *Session
	Expired bool
	Path    string
	DelayID uint64
	DelayMS int64
	Marked  uint64
	Sum     [sha256.Size]byte
}

// Outcome is what applying one batch came to. A batch that was not accepted
// changed nothing, and all its results are Refused.
type Outcome struct {
	Accepted bool
	Epoch    uint64 // after the batch
	Term     uint64 // raft term of the entry
	Index    uint64
	Results  []Result
	Events   []Event
}

// Apply is the transition: the state after the entry at (index, term) that
// carries b, and what it came to. The receiver stays as it was.
//
// A batch is accepted only in the office whose epoch it names, and only from
// the raft term in which that office was opened; so a command that was admitted
// before mastership was lost, or lost and won back, never takes effect late.
// The batch that opens an office is accepted when it was made for the raft term
// that the entry has.
func (s *State) Apply(index, term uint64, b Batch) (*State, Outcome) {
	e := edit(s, len(b.Commands))
	e.Index, e.Term = index, term
	out := Outcome{Term: term, Index: index, Results: make([]Result, len(b.Commands))}
	switch {
	case b.LeaseMS <= 0 || b.LeaseMS > MaxLeaseMS:
	case len(b.Commands) == 1 && b.Commands[0].Kind == OpenOffice:
		out.Accepted = e.openOffice(term, b.LeaseMS, &b.Commands[0], &out.Results[0])
	case e.Office.Open && e.Office.Term == term && e.Epoch == b.Epoch:
		out.Accepted = true
		e.Office.LeaseMS = max(e.Office.LeaseMS, b.LeaseMS)
		for i := range b.Commands {
			out.Results[i] = e.command(&b.Commands[i])
		}
	}
	out.Epoch, out.Events = e.Epoch, e.events
	return e.State, out
}

// openOffice begins the next term of office, unless the entry was written in
// another raft term than it was made for: then its maker is no longer master.
func (e *editor) openOffice(term uint64, leaseMS int64, c *Command, r *Result) bool {
	if c.Term != term || c.Master == "" {
		return false
	}
	e.Epoch++
	e.Now = max(e.Now, c.Time)
	e.Office = Office{Open: true, Term: term, Master: c.Master, LeaseMS: leaseMS}
	r.Verdict = Done
	return true
}

// command applies one command of an accepted batch. What stands behind a
// CloseOffice, an OpenOffice that is not alone, and what is not well formed, is
// refused.
func (e *editor) command(c *Command) Result {
	if !e.Office.Open || !c.wellFormed() {
		return Result{Verdict: Refused}
	}
	e.Now = max(e.Now, c.Time)
	switch c.Kind {
	case CloseOffice:
		e.Office.Open = false
		return Result{Verdict: Done}
	case OpenSession:
		return e.openSession(c)
	case CloseSession, ExpireSession:
		return e.endSession(c)
	case Acquire:
		return e.acquire(c)
	case Release:
		return e.release(c)
	case Withdraw:
		return e.withdraw(c)
	case EndDelay:
		return e.endDelay(c)
	case MarkState:
		e.emit(Event{Kind: EventMarked})
		return Result{Verdict: Done}
	case TellSum:
		return e.tellSum(c)
	case NoteMembers:
		return e.noteMembers(c)
	}
	return Result{Verdict: Refused}
}

// tellSum passes a sum on to whoever compares it. Neither it nor a mark leaves
// a trace in the state: a replica that has no sum of its own to compare with
// holds the same bytes as one that has.
func (e *editor) tellSum(c *Command) Result {
	if c.Seq == 0 || c.Seq >= e.Index {
		return Result{Verdict: Refused}
	}
	e.emit(Event{Kind: EventSum, Marked: c.Seq, Sum: [sha256.Size]byte(c.Digest)})
	return Result{Verdict: Done}
}
