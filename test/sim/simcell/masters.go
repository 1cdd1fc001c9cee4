package simcell

import (
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/lockapi"
)

// These are faults during the change from one master to the next.

// coup cuts the master off from the others, or pauses it, and lets another
// campaign at once, long before the end of the lease. Clients reach both. The
// other may have just started, or just received a snapshot, so that it has
// promised little since.
func (w *world) coup() {
	old, next := w.rivals()
	if old == nil {
		return
	}
	before := time.Duration(0)
	switch w.script.IntN(4) {
	case 0:
		next.crash()
		w.later(between(w.script, time.Millisecond, 20*time.Millisecond), func() { next.restart(false) })
		before = between(w.script, 2*time.Millisecond, 100*time.Millisecond)
	case 1:
		next = w.straggler(old)
		w.heal()
		before = between(w.script, 2*time.Millisecond, 500*time.Millisecond)
	}
	if w.script.IntN(4) == 0 { // answers come late before they stop
		lag := between(w.script, 50*time.Millisecond, 450*time.Millisecond)
		for _, m := range w.machines {
			w.net.lag[[2]string{m.id, old.id}] = lag
		}
		before += between(w.script, 300*time.Millisecond, 1500*time.Millisecond)
	}
	means, span := w.script.IntN(4), between(w.script, 100*time.Millisecond, 8*time.Second)
	campaign := between(w.script, time.Millisecond, 300*time.Millisecond)
	w.old = old
	w.trace.note(next.id, "is to campaign against %s", old.id)
	w.later(before, func() {
		if w.faultsOver {
			return
		}
		if w.chance(2) {
			w.besiege(old)
			w.until(between(w.rng, 100*time.Microsecond, 5*time.Millisecond))
			if w.faultsOver { // nothing would heal the following faults
				return
			}
		}
		switch means {
		case 0:
			w.part(old)
		case 1:
			w.deafen(old)
		default:
			old.pause()
			w.later(span, old.wake)
		}
		w.later(campaign, func() { w.campaign(next) })
	})
}

// rivals returns the master in office, or nil, and another machine.
func (w *world) rivals() (old, next *machine) {
	if old = w.leader(); old == nil {
		return nil, nil
	}
	for next = w.anyMachine(); next == old; {
		next = w.anyMachine()
	}
	return old, next
}

// besiege makes all clients send every kind of call to one machine at the same
// time.
func (w *world) besiege(m *machine) {
	w.trace.note(m.id, "is besieged")
	for _, u := range w.users {
		u.ask(m.id)
	}
}

// deafen loses all messages from the others to a machine; its own messages
// arrive.
func (w *world) deafen(m *machine) {
	w.trace.note(m.id, "gets no messages from the others")
	for _, other := range w.machines {
		w.net.setCut(other.id, m.id, true)
	}
}

// lieInWait cuts a machine off until the master has cut its log after a new
// snapshot; see ambush.
func (w *world) lieInWait() {
	if old := w.leader(); old != nil && w.waiting == nil {
		w.waiting = w.straggler(old)
		w.part(w.waiting)
	}
}

// ambush is called when a machine has a new snapshot. If it is the master's,
// the machine that was cut off receives only that snapshot, and campaigns.
func (w *world) ambush(old *machine) {
	next := w.waiting
	if next == nil || next == old || w.faultsOver || w.leader() != old {
		return
	}
	w.waiting = nil
	w.trace.note(next.id, "is to campaign against %s with its snapshot", old.id)
	w.later(5*time.Millisecond, func() {
		w.heal()
		w.net.fair()
		w.later(between(w.rng, 10*time.Millisecond, 300*time.Millisecond), func() {
			if !w.faultsOver {
				w.part(old)
				w.campaign(next)
			}
		})
	})
}

// straggler returns the machine with the shortest log, except one.
func (w *world) straggler(but *machine) *machine {
	var last *machine
	for _, m := range w.machines {
		if m != but && (last == nil || m.disk.high < last.disk.high) {
			last = m
		}
	}
	return last
}

// leader returns the machine in office, or nil, except some.
func (w *world) leader(but ...*machine) *machine {
	w.oracle.looking = true // a paused process still answers
	defer func() { w.oracle.looking = false }()
	for _, m := range w.machines {
		if m.process != nil && m.process.master != nil && !slices.Contains(but, m) && m.process.master.Known().Self {
			return m
		}
	}
	return nil
}

// transfer hands mastership over, through any replica. Another may be elected
// first.
func (w *world) transfer() {
	from, to := w.anyMachine(), ""
	if w.script.IntN(2) == 0 {
		to = w.anyMachine().id
	}
	if m := w.leader(); m != nil {
		from = m
	}
	if w.script.IntN(3) == 0 {
		next := w.anyMachine()
		w.later(between(w.script, time.Millisecond, 100*time.Millisecond), func() {
			if !w.faultsOver {
				w.campaign(next)
			}
		})
	}
	if p := from.process; p != nil && p.master != nil {
		go func() {
			_, _ = p.master.TransferMastership(p.gone, w.operator(), &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: to}})
		}()
	}
}

func (w *world) timeoutNow() { w.campaign(w.anyMachine()) }

// campaign delivers the message that makes a replica campaign at once, like a
// late or repeated one of a transfer long over.
func (w *world) campaign(m *machine) {
	p := m.process
	if p == nil || p.replica == nil {
		return
	}
	go p.wire.receive(raft.RPC{
		Command:  &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}},
		RespChan: make(chan raft.RPCResponse, 1),
	})
}

// pretend makes the replicas believe for a while that they are not the leader.
func (w *world) pretend() {
	span := between(w.script, time.Millisecond, time.Second)
	for _, m := range w.machines {
		m.pretend(span)
	}
}

func (m *machine) pretend(span time.Duration) {
	m.deposed = m.w.now() + span
	m.notify()
	m.w.later(span+time.Millisecond, m.notify)
}
