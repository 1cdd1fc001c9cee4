package simcell

import (
	"context"
	"slices"
	"time"
)

// A replica that stops in good order hands mastership over first. Calls of other
// members can keep its process alive after that.

const (
	// closeWithin bounds the hand-over: half of the default of shutdown-timeout.
	closeWithin = 4 * time.Second
	// masterWithin is how long a healthy cell may lack a master: the longest
	// lease of a deposed one, some elections, and the retry of a transfer.
	masterWithin = 9 * time.Second
	// longLinger is long enough to notice more than that.
	longLinger = 16 * time.Second
)

// stop ends the machine's process as package embed does. Calls of other members
// keep it open for a while. It closes its stores at the end.
func (m *machine) stop(linger time.Duration) {
	p := m.process
	if p == nil || p.server == nil || p.closed != nil {
		return
	}
	p.closed = make(chan struct{})
	defer close(p.closed)
	m.w.trace.note(m.id, "stops in good order, and lingers for %v", linger)
	p.server.Drain()
	ctx, cancel := context.WithTimeout(p.gone, closeWithin)
	err := p.master.Close(ctx)
	cancel()
	p.deaf = true
	p.replica.Follow()
	m.w.trace.note(m.id, "has stopped: %v", err)
	if sleep(linger, p.gone.Done()); !p.dead() {
		m.w.stats.check("end in good order")
	}
	_ = p.replica.Close()
	if !p.dead() {
		m.crash()
	}
}

// stopOne stops a replica, among other faults or as a plot. In a plot the cell
// is healthy, or another replica has just crashed. Something may make the
// stopping one lead while it lingers.
func (w *world) stopOne() {
	plot, reboot := w.script.IntN(2) == 0, w.script.IntN(3) == 0
	linger, pause := between(w.script, time.Millisecond, 2*closeWithin), between(w.script, time.Millisecond, 3*time.Second)
	if plot && !w.whole() {
		return
	}
	m := w.anyMachine()
	if old := w.leader(); old != nil && w.script.IntN(2) == 0 {
		m = old
	}
	p := m.process
	stop := func(linger time.Duration) {
		m.stop(linger)
		w.later(pause, func() { m.restart(reboot) })
	}
	if !plot || p == nil || p.server == nil || p.closed != nil { // without a server, stop does nothing
		go stop(linger)
		return
	}
	var away *machine
	if w.script.IntN(2) == 0 {
		for away = w.anyMachine(); away == m; {
			away = w.anyMachine()
		}
		away.crash()
		defer away.restart(false)
		w.until(between(w.script, time.Microsecond, 100*time.Millisecond))
	}
	since := w.now()
	go stop(longLinger)
	w.soon(func() bool { return p.deaf || m.process != p })
	w.until(between(w.script, time.Millisecond, time.Second))
	old := w.leader(m)
	switch w.script.IntN(3) {
	case 0:
		w.campaign(m)
	case 1:
		if old != nil {
			w.handOver(old, m)
		}
	}
	w.pauses = false
	defer func() { w.pauses = true }()
	if w.profile.stalls > 0 {
		since = w.now() + 3*time.Second // the longest one
	}
	for ; m.process == p && !w.isOver(); w.until(20 * time.Millisecond) {
		w.oracle.look()
		switch {
		case !w.sound(m, away):
			since = max(since, w.now())
		case w.oracle.master != nil:
		case w.now()-max(since, w.oracle.steady, w.woke) > masterWithin:
			w.fail("the cell has had no master for %v, although a majority is connected, and only %s is stopping", masterWithin, m.id)
		default:
			w.stats.check("no master while a replica stops")
		}
	}
}

// sound reports whether nothing keeps the machines from electing a master. One
// of them is stopping, another one may be away.
func (w *world) sound(stopping, away *machine) bool {
	n := w.net
	voters, ok := w.voters()
	if n.worst > w.profile.near || n.lose != 0 || n.stuck != 0 || len(n.lag) > 0 || !ok || len(voters) != len(w.machines) {
		return false
	}
	for _, m := range w.machines {
		if m == away {
			continue
		}
		for _, other := range w.machines {
			if n.isCut(m.id, other.id) {
				return false
			}
		}
		d := m.disk
		if !m.runs() || !slices.Contains(voters, d.who.ServerID()) || m.resume != nil || m.freeze+m.snag+m.fatal > 0 || m.tardy > 0 || m.deposed > w.now() ||
			d.worst > 20*time.Millisecond || d.least+d.heavy > 0 || d.hangs || m != stopping && m.process.closed != nil {
			return false
		}
	}
	return true
}
