package simcell

import (
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/test/crash/powerloss"
)

// putBack: a follower's directory is replaced by an older copy of itself. The
// master, which stays in office, knows what the follower had stored since. So
// the follower does not run, or not for long. It may not reach the master at
// its start. Then the operator gives it an empty directory.
//
// Without a master that knows, such a directory looks like a sound one, and
// entries that only it had are lost. So here all other replicas have them, too.
func (w *world) putBack(old, _ *machine) {
	if !w.memberOperator.rests() {
		return
	}
	defer w.memberOperator.goesOn()
	voters, _ := w.voters() // a replaced directory is not a member
	i := slices.IndexFunc(w.machines, func(m *machine) bool {
		return m != old && m.process != nil && slices.Contains(voters, m.disk.who.ServerID()) && w.mayLose(m)
	})
	if i < 0 {
		return
	}
	m := w.machines[i]
	before, had := m.disk.power.Seen(), m.disk.begun
	w.besiege(old)
	w.until(between(w.script, 20*time.Millisecond, time.Second))
	if !w.soon(func() bool { return w.knows(old, m).Index > had && w.allHave(m) }) {
		return
	}
	known := w.knows(old, m)
	m.crash()
	m.disk.power = powerloss.NewDisk(before)
	m.putBack, m.forgot = true, false
	w.trace.note(m.id, "has its directory as of entry %d, and had stored all up to %d", had, known.Index)
	if w.script.IntN(2) == 0 {
		w.part(m)
		w.later(between(w.script, time.Millisecond, 2*time.Second), w.heal)
	}
	m.restart(false)
	for end := w.now() + 15*time.Second; !m.forgot && w.now() < end && w.knows(old, m).Term == known.Term && !w.isOver(); {
		w.until(10 * time.Millisecond)
	}
	switch {
	case m.forgot:
		w.stats.check("end of a directory that was put back")
	case w.knows(old, m).Term == known.Term && !w.isOver():
		w.fail("the product does not notice that the directory of %s was put back to entry %d: it had acknowledged to %s all entries up to %d", m.id, had, old.id, known.Index)
	}
	m.crash()
	m.putBack, m.disk = false, newDisk(w)
	m.restart(false)
}

// knows returns what a machine, as the leader, knows another to have stored.
func (w *world) knows(leader, m *machine) admission.Stored {
	w.oracle.looking = true
	defer func() { w.oracle.looking = false }()
	if leader.process == nil || leader.process.replica == nil {
		return admission.Stored{}
	}
	return leader.process.replica.InfoFor(m.disk.who.ServerID()).Stored
}

// allHave reports whether all other machines have the same entries.
func (w *world) allHave(m *machine) bool {
	return !slices.ContainsFunc(w.machines, func(o *machine) bool { return o.process == nil || o.disk.high < m.disk.high })
}
