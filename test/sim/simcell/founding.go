package simcell

import (
	"slices"
	"time"
)

// These are faults during the founding of the cell.

// disturbFounding makes machines crash, lose their disks and get old ones back
// while they found the cell.
func (w *world) disturbFounding() {
	w.stats.check("disturbed founding")
	for range 2 + w.script.IntN(8) {
		w.until(between(w.script, time.Millisecond, 200*time.Millisecond))
		switch w.script.IntN(5) {
		case 0:
			w.crashOne()
		case 1:
			w.crashInWrite()
		case 2:
			w.cutOneWay()
		case 3:
			w.wipeOne()
		case 4:
			w.oldDisk()
		}
	}
	w.heal()
}

// shortFounding: one machine is down while the others might found the cell
// without it. One of those loses its disk, and the rest are down.
func (w *world) shortFounding() {
	w.stats.check("short founding")
	late, wiped, others := w.machines[0], w.machines[1], w.machines[2:]
	late.crash()
	w.until(between(w.script, time.Second, 4*time.Second))
	for _, m := range others {
		m.crash()
	}
	w.trace.note(wiped.id, "has lost its disk")
	wiped.swap(newDisk(w), time.Millisecond) // the cell has not been founded yet
	late.restart(false)
	w.until(between(w.script, time.Second, 4*time.Second))
	for _, m := range others {
		m.restart(false)
	}
}

// tornFounding: all machines have prepared a founding, and only one completes
// it. It has another disk until the others have given that founding up.
func (w *world) tornFounding() {
	first := w.firstFounder()
	if first == nil {
		return
	}
	w.stats.check("torn founding")
	founded := first.disk
	for _, m := range w.machines {
		if m.crash(); m != first {
			m.restart(false)
		}
	}
	first.disk = newDisk(w)
	first.restart(false)
	w.soon(func() bool {
		return w.founded() || !slices.ContainsFunc(w.machines, func(m *machine) bool {
			return m.disk.who.Founding.Has(founded.who.ServerID())
		})
	})
	if !w.founded() {
		w.trace.note(first.id, "has its disk again")
		first.crash()
		first.disk = founded
		first.restart(false)
		w.soon(w.cameToNothing)
		w.beginAnew()
	}
}

// firstFounder waits until exactly one machine has founded the cell.
func (w *world) firstFounder() (first *machine) {
	for end := w.now() + 5*time.Second; w.now() < end && first == nil && !w.isOver(); w.until(20 * time.Microsecond) {
		for _, m := range w.machines {
			switch {
			case m.disk.who.CellID == "":
			case first != nil:
				return nil
			default:
				first = m
			}
		}
	}
	return first
}

// cameToNothing reports whether disks were lost during the founding, so that a
// founder is left alone.
func (w *world) cameToNothing() bool {
	strangers := 0
	for _, m := range w.machines {
		if m.process != nil && m.process.stranger {
			strangers++
		}
	}
	return strangers > len(w.machines)/2 && len(w.oracle.history) == 1
}

// beginAnew is the operator's way out of that: the cell never served a call,
// and no disk is kept.
func (w *world) beginAnew() {
	if w.cameToNothing() {
		w.trace.note("operator", "the founding failed: all machines start again")
		w.stats.check("founding restarted")
		for _, m := range w.machines {
			m.swap(newDisk(w), time.Millisecond)
			m.attic = nil
		}
		w.until(5 * time.Second)
	}
}
