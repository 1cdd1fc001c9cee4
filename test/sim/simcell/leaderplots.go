package simcell

import (
	"time"
)

// forgetfulLeader: a leader with a slow disk crashes before it has written an
// entry that just enough of the others have. These are then cut off, and the
// leader or another replica without the entry is elected.
func (w *world) forgetfulLeader(old, _ *machine) {
	var with, without []*machine // the others that complete a majority, and the rest
	for _, m := range w.machines {
		switch {
		case m == old:
		case len(with) < len(w.machines)/2:
			with = append(with, m)
		default:
			without = append(without, m)
		}
	}
	for _, m := range without {
		w.part(m)
	}
	old.disk.heavy = between(w.script, 300*time.Millisecond, 900*time.Millisecond)
	w.besiege(old)
	w.until(between(w.script, 20*time.Millisecond, old.disk.heavy))
	old.crash()
	old.disk.heavy = 0
	w.heal()
	for _, m := range with {
		w.part(m)
	}
	old.restart(false)
	w.soon(func() bool { return old.leads() || w.anyLeads(without) })
	w.until(between(w.script, 10*time.Millisecond, time.Second))
	w.heal()
	w.until(500 * time.Millisecond)
}

// slowMaster: a master's disk is slow, or hangs, while the other disks are fast
// and clients keep calling. It commits without its own disk. It may then crash,
// and return without entries that it has applied, while a replica that has them
// is away.
func (w *world) slowMaster(old, next *machine) {
	old.disk.heavy = between(w.script, 50*time.Millisecond, 2*time.Second)
	old.disk.hangs = w.script.IntN(4) == 0
	for range 1 + w.script.IntN(4) {
		w.besiege(old)
		w.until(between(w.script, 20*time.Millisecond, 700*time.Millisecond))
	}
	if p := old.process; p != nil && p.replica != nil && p.replica.State().Index > old.disk.high {
		w.stats.check("applied before it is on the master's disk")
	}
	crashes := w.script.IntN(2) == 0
	if crashes {
		if old.crash(); w.script.IntN(2) == 0 {
			w.part(next)
		}
	}
	old.disk.heavy, old.disk.hangs = 0, false
	old.restart(false)
	w.soon(w.hasMaster)
	w.heal()
}

func (w *world) anyLeads(of []*machine) bool {
	for _, m := range of {
		if m.leads() {
			return true
		}
	}
	return false
}

// eagerSuccessor: a master with the slowest allowed clock is paused, so that it
// does not notice the loss of its leadership. A successor with the fastest
// clock checks repeatedly when its wait is about to end. Timers use true time
// here and would make it check too late. Messages and disks are quick, so that
// lease and promise are close.
func (w *world) eagerSuccessor(old, next *machine) {
	most := drift * w.opts.Skew
	w.net.worst = 2 * w.net.calm
	for _, m := range []*machine{old, next} {
		defer func(worst time.Duration) { m.disk.worst = worst }(m.disk.worst)
		m.disk.worst = 100 * time.Microsecond
	}
	old.clock.bend(1 - most)
	next.clock.bend(1 + most)
	w.until(between(w.script, 300*time.Millisecond, 2*time.Second))
	old.pause()
	defer old.wake()
	w.campaign(next)
	if !w.soon(next.leads) {
		return
	}
	for end := w.now() + 10*time.Second; w.now() < end && next.leads() && w.leader(old) == nil && !w.isOver(); {
		left := next.waits()
		switch {
		case left > 4*time.Millisecond:
			w.until(left / 2)
		case left > -5*time.Millisecond:
			next.notify()
			w.until(50 * time.Microsecond)
		default:
			w.until(10 * time.Millisecond)
		}
	}
	w.until(50 * time.Millisecond)
	w.net.fair()
}

// outlived: a master is paused until its successor has been in office for a
// while, and then cut off from the others, so that it forwards no calls.
// Clients that can only reach it call it when it resumes, and are muted after
// that.
func (w *world) outlived(old, next *machine) {
	w.until(between(w.script, 500*time.Millisecond, 2*time.Second)) // for sessions
	for _, u := range w.users {
		w.confine(u, old)
	}
	w.besiege(old)
	w.until(10 * time.Millisecond)
	old.pause()
	w.campaign(next)
	if w.soon(func() bool { return w.oracle.master != nil && w.oracle.master.m != old }) {
		w.until(between(w.script, 100*time.Millisecond, time.Second))
		w.part(old)
		w.besiege(old)
		w.until(time.Millisecond)
		old.wake()
		w.until(between(w.script, 3*time.Millisecond, 10*time.Millisecond))
		w.muteAll(8 * time.Second)
		w.until(8 * time.Second)
	}
	old.wake()
	w.heal()
}

// waits returns how long a machine's process still keeps its promise to an
// earlier master, on its clock.
func (m *machine) waits() time.Duration {
	m.w.oracle.looking = true
	defer func() { m.w.oracle.looking = false }()
	if p := m.process; p != nil && p.replica != nil {
		_, left, _ := p.replica.Promise()
		return left
	}
	return 0
}

// lapse: a master hands nothing to Raft until its lease has run out, and then
// continues. Clients killed before have left their sessions behind.
func (w *world) lapse(m, _ *machine) {
	for _, u := range w.users {
		if w.script.IntN(2) == 0 {
			u.kill()
		}
	}
	m.tardy = m.lease + between(w.script, 10*time.Millisecond, 2*time.Second)
	w.until(2 * m.tardy)
	m.tardy = 0
	if w.script.IntN(2) == 0 {
		w.until(25 * time.Second)
	}
}
