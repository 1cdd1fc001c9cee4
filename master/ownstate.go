package master

import (
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// ownState returns this replica's own state, for an answer that is not the
// master's: stale reads and lists, events and history all use it. The error is
// no_master if the state is not fit for answers: see caughtUp. While access is
// on, the error is also no_master if the replica has not caught up with a
// master for StaleFor: rights and tokens may have been revoked since. The
// replica may use the state for left; left is zero while access is off, and
// there is no limit then.
func (m *Master) ownState() (s *state.State, left time.Duration, err error) {
	now := m.opts.Clock()
	s, asOf, err := m.caughtUp()
	if err != nil || !s.AccessOn {
		return s, 0, err
	}
	if o := m.inOffice(); o != nil && o.leaseValid() {
		asOf = max(asOf, now)
	}
	if left = asOf + m.opts.StaleFor - now; left <= 0 {
		return nil, 0, errNoMaster("access is on, and this replica has had no contact with a master for %v (stale-for is %v): it might accept a revoked token; ask another replica",
			(now - asOf).Round(time.Millisecond), m.opts.StaleFor)
	}
	return s, left, nil
}

// caughtUp returns this replica's own state, and an instant: everything that
// was acknowledged before it is in the state. The error is no_master until the
// replica has caught up with a master since its start: its log may have more
// than it has applied, and it does not know how much of that is committed. The
// error is no_master, too, before a cell's first master, because its founding
// may begin anew with another id. It is no_master as well in a cell founded
// with access on until access is on.
func (m *Master) caughtUp() (s *state.State, asOf time.Duration, err error) {
	asOf, known := m.log.AsOf() // before the state, which only advances
	s = m.log.State()
	switch {
	case m.opts.awaitsFounding(s):
		return nil, 0, errFounding()
	case s.Epoch == 0:
		return nil, 0, errNoMaster("this cell has had no master yet; try again in a moment")
	case !known:
		return nil, 0, errNoMaster("this replica has not caught up with a master since it was started: its own state may be older than its earlier answers; ask another replica")
	}
	return s, asOf, nil
}
