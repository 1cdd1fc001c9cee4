package child

import (
	"fmt"
	"syscall"
	"time"
)

// Margins are the times before the end of the lease at which the command is
// asked to stop and killed. Between them the command can clean up.
type Margins struct {
	Term time.Duration // SIGTERM when less than this is left
	Kill time.Duration // SIGKILL when less than this is left
}

// DefaultMargins returns margins for a session of the given ttl: SIGTERM at a
// sixth, SIGKILL at a twelfth. A healthy session is renewed well before a third
// of its ttl is left. So neither the ordinary wait between two keepalives nor a
// change of master stops the command.
func DefaultMargins(ttl time.Duration) Margins {
	return Margins{Term: ttl / 6, Kill: ttl / 12}
}

// Validate reports margins that cannot work with a session of the given ttl.
func (m Margins) Validate(ttl time.Duration) error {
	switch {
	case m.Kill <= 0:
		return fmt.Errorf("the kill margin is %v; it must be above zero, or the command could outlive the lease", m.Kill)
	case m.Term < m.Kill:
		return fmt.Errorf("the term margin %v is shorter than the kill margin %v; the command must be asked to stop before it is killed", m.Term, m.Kill)
	case m.Term > ttl/4:
		return fmt.Errorf("the term margin is %v; at most a quarter of the ttl %v (%v) is allowed, because a healthy session gets close to a third between two keepalives", m.Term, ttl, ttl/4)
	}
	return nil
}

// maxNap limits the time between two checks of the lease. Timers stop while the
// machine sleeps, but the lease does not: after waking, the command may run
// unwatched for this long.
const maxNap = 250 * time.Millisecond

// watch decides, from the time left of the lease, when to ask the command to
// stop and when to kill it. It never reverses a step: a command that was asked
// to stop is already stopping, even if the lease is then renewed. It is not
// killed then, unless the lease runs low again.
type watch struct {
	Margins
	asked   bool
	killed  bool
	revoked bool
}

// revoke asks the command to stop at the next step, regardless of the lease. It
// returns the time left from now on, given the time since the revocation: the
// command has the kill margin to end. The time is short because another holder
// may already be at work.
func (w *watch) revoke(ago time.Duration) (remaining time.Duration) {
	w.revoked = true
	return 2*w.Kill - ago
}

// step returns the signal that is due now (0 for none), and the time until the
// next check.
func (w *watch) step(remaining time.Duration) (due syscall.Signal, nap time.Duration) {
	switch {
	case w.killed:
		return 0, maxNap
	case remaining <= w.Kill:
		w.asked, w.killed = true, true
		return syscall.SIGKILL, maxNap
	case (remaining <= w.Term || w.revoked) && !w.asked:
		w.asked = true
		return syscall.SIGTERM, min(maxNap, remaining-w.Kill)
	case remaining <= w.Term || w.asked:
		return 0, min(maxNap, remaining-w.Kill)
	default:
		return 0, min(maxNap, remaining-w.Term)
	}
}
