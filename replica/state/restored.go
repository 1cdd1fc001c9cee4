package state

// DelayOfNone is the lock-delay, in milliseconds, that a lock gets in a restore
// from a backup if its holder had asked for none. The holder may still be
// running, unaware of the restore.
const DelayOfNone = 60_000

// Restored returns the state in which a new cell continues from a backup of s.
// It keeps files, rules, groups and access tokens. It drops all sessions, waits
// and ephemeral files, and every held lock gets its lock-delay.
//
// Tokens and revisions continue from floor, or from one above the backup's if
// that is higher. A floor from the clock is above everything that the old cell
// gave after the backup, and above an earlier restore of the same backup. If
// floor is too large, Check of the returned state fails.
//
// The state has an open office with the longest possible lease. So the first
// master of the new cell waits as long as any lease of the old one could last.
func (s *State) Restored(floor uint64) *State {
	e := edit(s, 0)
	for w := range s.Waits() {
		e.dropPart(w)
	}
	for h := range s.Holds() {
		e.removeHold(h, Expired)
		if f, there := e.File(h.Path); there && h.Key == KeyDeleted {
			e.dropFile(f, Expired)
		}
		ms := h.DelayMS
		if ms == 0 {
			ms = DelayOfNone
		}
		e.delay(h.Path, ms)
	}
	for v := range s.Sessions("") {
		for f := range s.Ephemeral(v.ID) {
			if now, there := e.File(f.Path); there {
				e.dropFile(now, Expired)
			}
		}
		e.dropSession(v)
	}
	e.Counter = max(s.Counter+1, floor)
	e.Revision = max(s.Revision+1, floor)
	// The log is new: this state replaces its first entry. The members are new,
	// too.
	e.Index, e.Term = 1, 1
	e.Members = nil
	e.Epoch++
	e.Office = Office{Open: true, Master: s.Office.Master, LeaseMS: MaxLeaseMS}
	return e.State
}

// LastToken returns the highest fencing token given.
func (s *State) LastToken() uint64 { return s.Counter }
