package simcell

import (
	"slices"
	"time"
)

// These are plots of new directories that get a vote.

// laggingVoter: one machine gets a new directory, and the last old voter does
// not learn of its promotion. Then the master loses its disk: the remaining two
// are a majority. It needs a cell of exactly three.
func (w *world) laggingVoter() {
	if len(w.machines) != 3 {
		return
	}
	if !w.whole() {
		return
	}
	old, next := w.rivals()
	if old == nil || !w.mayLose(next) {
		return
	}
	next.swap(newDisk(w), between(w.script, time.Millisecond, 100*time.Millisecond))
	w.soon(func() bool { return next.process != nil && next.process.stranger })
	w.replace(next)
	for _, m := range w.machines { // messages to the third machine are slow, and then lost
		if m != old && m != next {
			w.net.lag[[2]string{old.id, m.id}] = between(w.script, 50*time.Millisecond, 300*time.Millisecond)
		}
	}
	promoted := false
	for end := w.now() + 5*time.Second; w.now() < end && !promoted && !w.isOver(); w.until(200 * time.Microsecond) {
		ids, ok := w.voters()
		promoted = ok && slices.Contains(ids, next.disk.who.ServerID())
	}
	if promoted && w.mayLose(old) {
		w.stats.check("lagging voter")
		w.part(old)
		w.trace.note(old.id, "has lost its disk")
		old.swap(newDisk(w), between(w.script, time.Millisecond, 3*time.Second))
	}
	w.heal()
}

// hungryVoter: one machine gets a new directory and becomes a voter before it
// has any entry. Then the master loses its disk, and the third machine
// restarts. It does not know yet that the new directory was committed.
func (w *world) hungryVoter() {
	if len(w.machines) != 3 || !w.whole() {
		return
	}
	old, next := w.rivals()
	if old == nil || !w.mayLose(next) {
		return
	}
	next.swap(newDisk(w), time.Millisecond)
	if w.soon(func() bool { return next.process != nil && next.process.stranger }) {
		w.replace(next)
	}
	w.net.lag[[2]string{old.id, next.id}] = 300 * time.Millisecond
	if w.soon(next.runs) {
		next.disk.hangs = true
	}
	promoted := w.soon(func() bool {
		ids, ok := w.voters()
		return ok && slices.Contains(ids, next.disk.who.ServerID())
	})
	w.part(old)
	next.disk.hangs = false
	if promoted && w.mayLose(old) {
		w.stats.check("hungry voter")
		for _, m := range w.machines {
			if m != old && m != next {
				m.crash()
				m.restart(false)
				// Votes come too late, but questions about members do not.
				late := between(w.script, 350*time.Millisecond, 490*time.Millisecond)
				w.net.lag[[2]string{m.id, next.id}], w.net.lag[[2]string{next.id, m.id}] = late, late
			}
		}
		w.trace.note(old.id, "has lost its disk")
		old.swap(newDisk(w), between(w.script, time.Millisecond, 3*time.Second))
		w.until(between(w.script, 3*time.Second, 6*time.Second))
	}
	w.heal()
}

// tooLate: an operator wants the old directory back, and the master's questions
// to the members take so long that the old one is removed before the answers.
func (w *world) tooLate() {
	if !w.whole() {
		return
	}
	old, next := w.rivals()
	if old == nil || !w.mayLose(next) {
		return
	}
	before := next.disk.who.Directory
	next.swap(newDisk(w), time.Millisecond)
	if w.soon(func() bool { return next.process != nil && next.process.stranger }) {
		w.replace(next)
	}
	if !w.soon(next.runs) {
		return
	}
	w.stats.check("taken back too late")
	w.until(between(w.script, time.Millisecond, 100*time.Millisecond))
	for _, m := range w.machines {
		if m != old && m != next {
			w.net.lag[[2]string{m.id, old.id}] = 800 * time.Millisecond
		}
	}
	go w.command(next.id, before)
	w.until(3 * time.Millisecond) // later messages are not delayed
	clear(w.net.lag)
	w.until(2 * time.Second)
}
