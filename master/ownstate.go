package master

import (
	"time"

	"github.com/stoutlock/stout/replica/state"
)

// ownState is this replica's own state, for an answer that is not the master's: stale
// reads and lists, events and history all get theirs here. The error is no_master where
// there is none that callers may be answered by: see caughtUp. While access is on it is
// no_master also when the replica has not caught up with a master for StaleFor: rights
// may have been taken away meanwhile, and tokens revoked. The replica may answer by the
// state for left; that is zero while access is off, and nothing ends it.
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
		return nil, 0, errNoMaster("access is on, and this replica has heard of no master for %v (stale-for is %v): by its own state it might take a revoked token for good; ask another one",
			(now - asOf).Round(time.Millisecond), m.opts.StaleFor)
	}
	return s, left, nil
}

// caughtUp is this replica's own state, and an instant as of which it has everything that
// was acknowledged. The error is no_master while the replica, since it was started, has
// not caught up with a master: its log may have more than it has applied, and it does not
// know how much of that is committed. It is no_master as well before the first master of
// a cell, since its founding may begin anew with another id, and before a cell that
// is founded with access on has it on.
func (m *Master) caughtUp() (s *state.State, asOf time.Duration, err error) {
	asOf, known := m.log.AsOf() // before the state, which only goes on
	s = m.log.State()
	switch {
	case m.opts.awaitsFounding(s):
		return nil, 0, errFounding()
	case s.Epoch == 0:
		return nil, 0, errNoMaster("this cell has had no master yet; ask again in a moment")
	case !known:
		return nil, 0, errNoMaster("this replica has not caught up with a master since it was started: its own state may lack what it knew before; ask another one")
	}
	return s, asOf, nil
}
