package state

import "fmt"

// Verdict is the outcome of an operation.
type Verdict uint8

// Values of Verdict.
const (
	Done      Verdict = 1 + iota // it took effect
	Held                         // it is a hold
	Queued                       // it is a queue position
	Busy                         // not granted: the lock is held, or others are queued
	Delayed                      // not granted: the lock is free but in its lock-delay
	Conflict                     // it contradicts the present state
	NoSession                    // the session does not live
	Nothing                      // there was nothing to do
	Failed                       // a condition does not hold, or a step failed
	NotHeld                      // a guard's grant is not held
	TooLong                      // the answer is too long to be remembered under its key
	Full                         // a limit on their number or size is reached
	Cycle                        // a group would be a member of itself
	Denied                       // a principal may not write at the name that a sequential file gets
)

func (v Verdict) String() string {
	names := [...]string{"", "done", "held", "queued", "busy", "delayed", "conflict", "no-session", "nothing", "failed", "not-held", "too-long", "full", "circle", "denied"}
	if int(v) < len(names) && v != 0 {
		return names[v]
	}
	return fmt.Sprintf("verdict-%d", uint8(v))
}

// Mismatch is the cause of a Conflict.
type Mismatch uint8

// Values of Mismatch.
const (
	NoMismatch    Mismatch = iota
	MismatchMode           // the existing hold or wait has another mode
	MismatchLimit          // the existing hold or wait has another limit
	MismatchOther          // the present holders and waiters have another limit
	MismatchSet            // the session has holds or waits on some of the paths, or for another set
)
