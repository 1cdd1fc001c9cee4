package child

import (
	"fmt"
	"syscall"
	"time"
)

// Margins say how long before the end of the lease the command is asked to stop
// and how long before it is killed. What lies between is the command's time to
// clean up.
type Margins struct {
	Term time.Duration // SIGTERM when less than this is left
	Kill time.Duration // SIGKILL when less than this is left
}

// DefaultMargins fit a session of the given ttl: SIGTERM at a sixth, SIGKILL at
// a twelfth. A healthy session is renewed well before a third of its ttl is
// left, so that the ordinary wait between two keepalives, and a change of
// master during it, do not stop the command.
func DefaultMargins(ttl time.Duration) Margins {
	return Margins{Term: ttl / 6, Kill: ttl / 12}
}

// Validate reports margins that cannot work with a session of the given ttl.
func (m Margins) Validate(ttl time.Duration) error {
	switch {
	case m.Kill <= 0:
		return fmt.Errorf("the kill margin is %v; it must be above zero, or the command could outlive the lease", m.Kill)
	case m.Term < m.Kill:
		return fmt.Errorf("the term margin %v is shorter than the kill margin %v; the command is told before it is killed", m.Term, m.Kill)
	case m.Term > ttl/4:
		return fmt.Errorf("the term margin is %v; at most a quarter of the ttl %v (%v) is allowed, as a healthy session gets close to a third between two keepalives", m.Term, ttl, ttl/4)
	}
	return nil
}

// maxNap bounds the time between two looks at the lease. Timers stand still
// while the machine sleeps and the lease does not: after waking, this is how
// long a command may run unwatched.
const maxNap = 250 * time.Millisecond

// watch decides, from what is left of the lease, when to ask the command to
// stop and when to kill it. It never takes a step back: a command that was
// asked to stop stays so, even when the lease is renewed after all, since it is
// stopping already and the signal cannot be unsent. It is then not killed,
// unless the lease runs low again.
type watch struct {
	Margins
	told    bool
	killed  bool
	revoked bool
}

// revoke has the command asked to stop at the next step, whatever is left of
// the lease, and returns what counts as left of it from now on, so long after
// it was revoked: the command has the kill margin to end. The time is short
// because somebody else may be at work already.
func (w *watch) revoke(ago time.Duration) (remaining time.Duration) {
	w.revoked = true
	return 2*w.Kill - ago
}

// step returns the signal that is due now (0 for none), and for how long the
// next look can wait.
func (w *watch) step(remaining time.Duration) (due syscall.Signal, nap time.Duration) {
	switch {
	case w.killed:
		return 0, maxNap
	case remaining <= w.Kill:
		w.told, w.killed = true, true
		return syscall.SIGKILL, maxNap
	case (remaining <= w.Term || w.revoked) && !w.told:
		w.told = true
		return syscall.SIGTERM, min(maxNap, remaining-w.Kill)
	case remaining <= w.Term || w.told:
		return 0, min(maxNap, remaining-w.Kill)
	default:
		return 0, min(maxNap, remaining-w.Term)
	}
}
