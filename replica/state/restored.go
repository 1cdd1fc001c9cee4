package state

// DelayOfNone is the lock-delay, in milliseconds, that a lock has after a restore
// from a backup where its holder had asked for none: he may live, and know nothing
// of the restore.
const DelayOfNone = 60_000

// Restored is the state that a new cell begins with which goes on from a backup of
// s. Files, rules, groups and tokens of access are there. No session is; what was
// held is in its lock-delay, nobody waits, and ephemeral files are gone.
//
// Tokens and revisions are counters that the new cell goes on with from floor, or
// from one above those of the backup where that is higher. With a floor from the
// clock they are above all that the old cell gave after the backup, and above
// those of an earlier restore of the same one. Where floor does not fit, Check of
// what is returned fails.
//
// An office stands open in it, with the longest lease that there may be: so the
// first master of the new cell waits as long as any lease of the old one.
func (s *State) Restored(floor uint64) *State {
	e := edit(s, 0)
	for w := range s.Waits() {
		e.dropWait(w)
	}
	for h := range s.Holds() {
		e.dropHold(h, Expired)
		ms := h.DelayMS
		if ms == 0 {
			ms = DelayOfNone
		}
		e.delay(h.Path, ms)
	}
	for v := range s.Sessions("") {
		for f := range s.Ephemeral(v.ID) {
			e.dropFile(f, Expired)
		}
		e.dropSession(v)
	}
	e.Counter = max(s.Counter+1, floor)
	e.Revision = max(s.Revision+1, floor)
	// The log is a new one, in which this state stands in the place of the first
	// entry, and its members are others.
	e.Index, e.Term = 1, 1
	e.Members = nil
	e.Epoch++
	e.Office = Office{Open: true, Master: s.Office.Master, LeaseMS: MaxLeaseMS}
	return e.State
}

// LastToken is the highest fencing token that was given.
func (s *State) LastToken() uint64 { return s.Counter }
