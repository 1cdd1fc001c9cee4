package state

import "fmt"

// Verdict says in a word what an operation came to.
type Verdict uint8

// The verdicts.
const (
	Done      Verdict = 1 + iota // it took effect
	Held                         // the claim is a hold
	Queued                       // the claim is a place in the queue
	Busy                         // not granted: others hold the lock or are before it
	Delayed                      // not granted: the lock is free but within its lock-delay
	Conflict                     // it contradicts what is there
	NoSession                    // the session does not live
	Nothing                      // there was nothing to do
	Failed                       // a condition does not hold, or a step can't be done
	NotHeld                      // a guard's grant is not held
	TooLong                      // the answer is too long to be remembered under its key
	Full                         // there is as much as there may be
	Circle                       // a group would be a member of itself
	Denied                       // somebody may not write at the name that a sequential file gets
)

func (v Verdict) String() string {
	names := [...]string{"", "done", "held", "queued", "busy", "delayed", "conflict", "no-session", "nothing", "failed", "not-held", "too-long", "full", "circle", "denied"}
	if int(v) < len(names) && v != 0 {
		return names[v]
	}
	return fmt.Sprintf("verdict-%d", uint8(v))
}

// Clash says what a Conflict is about.
type Clash uint8

// The clashes.
const (
	NoClash    Clash = iota
	ClashMode        // the claim is on the path in another mode
	ClashLimit       // the claim is on the path with another limit
	ClashOther       // the limit differs from that of the present holders and waiters
)
