package world

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// A run is a script of steps. Each draws a fault, or none, and lets some time
// pass; what it draws depends on the seed and the steps before, not on how many
// will follow, so that a run with fewer steps is the beginning of one with more.

// action is something that may happen in a step.
type action struct {
	name   string
	weight int
	do     func(*world)
}

var actions = []action{
	{"nothing", 30, func(*world) {}},
	{"crash", 6, (*world).crashOne},
	{"crash in a write", 4, (*world).crashInWrite},
	{"crash all", 1, (*world).crashAll},
	{"coup", 10, (*world).coup},
	{"ambush", 4, (*world).lieInWait},
	{"pause", 5, (*world).pauseOne},
	{"cut", 5, (*world).cutLink},
	{"one-way cut", 4, (*world).cutOneWay},
	{"isolation", 4, (*world).isolate},
	{"heal", 7, (*world).heal},
	{"slow network", 3, (*world).slowNetwork},
	{"lossy network", 2, (*world).lossyNetwork},
	{"fair network", 5, func(w *world) { w.net.fair() }},
	{"slow disk", 3, (*world).slowDisk},
	{"transfer", 6, (*world).transfer},
	{"late timeout-now", 3, (*world).timeoutNow},
	{"pretended loss", 3, (*world).pretend},
	{"client crash", 4, (*world).killUser},
	{"client cut off", 8, (*world).cutUser},
	{"kill of a session", 2, (*world).killSession},
}

// play runs the script.
func (w *world) play() {
	sum := 0
	for _, a := range actions {
		sum += a.weight
	}
	w.pauses = w.script.IntN(3) > 0
	for w.now() < 4*time.Second && !w.hasMaster() { // the first election
		w.until(50 * time.Millisecond)
	}
	for w.step = 1; w.step <= w.opts.Steps && !w.failed(); w.step++ {
		n := w.script.IntN(sum)
		for _, a := range actions {
			if n -= a.weight; n < 0 {
				if a.name != "nothing" {
					w.trace.note("script", "%s", a.name)
					w.stats.fault(a.name)
				}
				a.do(w)
				break
			}
		}
		w.until(between(w.script, time.Millisecond, 1500*time.Millisecond))
		w.judge.look()
	}
}

// until lets d pass, or less where the run ends meanwhile.
func (w *world) until(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.over:
	}
}

// later does something after d, unless the run is over.
func (w *world) later(d time.Duration, do func()) {
	go func() {
		if w.until(d); !w.isOver() {
			do()
		}
	}()
}

// mend ends the faults for good.
func (w *world) mend() {
	w.mended, w.pauses = true, false
	w.heal()
	w.net.fair()
	for _, m := range w.machines {
		m.deposed, m.fatal = 0, 0
		m.disk.worst = 2 * time.Millisecond
		m.wake()
		m.restart(false)
		m.tell()
	}
}

func (w *world) anyMachine() *machine { return w.machines[w.script.IntN(len(w.machines))] }
func (w *world) anyUser() *user       { return w.users[w.script.IntN(len(w.users))] }

// restart brings a machine back, perhaps with its clock started anew.
func (m *machine) restart(reboot bool) {
	if m.process != nil {
		return
	}
	if reboot {
		m.reboot()
	}
	m.start()
}

func (w *world) crashOne() {
	m, reboot := w.anyMachine(), w.script.IntN(3) == 0
	m.crash()
	w.later(between(w.script, time.Millisecond, 3*time.Second), func() { m.restart(reboot) })
}

// crashInWrite crashes a machine in one of the next writes to its disk.
func (w *world) crashInWrite() {
	m, reboot := w.anyMachine(), w.script.IntN(3) == 0
	m.fatal = 1 + w.script.IntN(4)
	m.afterCrash = between(w.script, time.Millisecond, time.Second)
	m.reboots = reboot
}

// coup parts the master from the others, or pauses it, and has another campaign
// at once, long before the lease is over. Clients reach both. The other may have
// just been started, or have just got a snapshot: what it has promised since is
// little.
func (w *world) coup() {
	old := w.leader()
	if old == nil {
		return
	}
	next := w.anyMachine()
	for next == old {
		next = w.anyMachine()
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
	paused, waking := w.script.IntN(2) == 0, between(w.script, 100*time.Millisecond, 8*time.Second)
	campaign := between(w.script, time.Millisecond, 300*time.Millisecond)
	w.old = old
	w.trace.note(next.id, "is to campaign against %s", old.id)
	w.later(before, func() {
		if w.mended {
			return
		}
		if paused {
			old.pause()
			w.later(waking, old.wake)
		} else {
			w.part(old)
		}
		w.later(campaign, func() { w.campaign(next) })
	})
}

// lieInWait keeps a machine away until the master has cut its log behind a new
// snapshot: see ambush.
func (w *world) lieInWait() {
	if old := w.leader(); old != nil && w.waiting == nil {
		w.waiting = w.straggler(old)
		w.part(w.waiting)
	}
}

// ambush is called when a machine has a new snapshot. Where it is the master's,
// the one that was kept away gets that snapshot and nothing else, and campaigns.
func (w *world) ambush(old *machine) {
	next := w.waiting
	if next == nil || next == old || w.mended || w.leader() != old {
		return
	}
	w.waiting = nil
	w.trace.note(next.id, "is to campaign against %s with its snapshot", old.id)
	w.later(5*time.Millisecond, func() {
		w.heal()
		w.net.fair()
		w.later(between(w.rng, 10*time.Millisecond, 300*time.Millisecond), func() {
			if !w.mended {
				w.part(old)
				w.campaign(next)
			}
		})
	})
}

// straggler is the machine whose log is the shortest, but for one.
func (w *world) straggler(but *machine) *machine {
	var last *machine
	for _, m := range w.machines {
		if m != but && (last == nil || m.disk.high < last.disk.high) {
			last = m
		}
	}
	return last
}

// leader is the machine whose process is in office, or nil.
func (w *world) leader() *machine {
	w.judge.looking = true // a paused process answers all the same
	defer func() { w.judge.looking = false }()
	for _, m := range w.machines {
		if m.process != nil && m.process.master != nil && m.process.master.Known().Self {
			return m
		}
	}
	return nil
}

func (w *world) crashAll() {
	for _, m := range w.machines {
		m.crash()
		w.later(between(w.script, time.Millisecond, time.Second), func() { m.restart(false) })
	}
}

func (w *world) pauseOne() {
	m := w.anyMachine()
	m.pause()
	w.later(between(w.script, 5*time.Millisecond, 6*time.Second), m.wake)
}

func (w *world) cutLink() {
	a, b := w.anyMachine().id, w.anyMachine().id
	w.net.setCut(a, b, true)
	w.net.setCut(b, a, true)
}

func (w *world) cutOneWay() { w.net.setCut(w.anyMachine().id, w.anyMachine().id, true) }

func (w *world) isolate() {
	m := w.anyMachine()
	id := m.id
	w.part(m)
	if w.script.IntN(2) == 0 { // from the clients, too
		for _, u := range w.users {
			w.net.setCut(id, u.name, true)
			w.net.setCut(u.name, id, true)
		}
	}
}

// part parts a machine from the others, not from the clients.
func (w *world) part(m *machine) {
	w.trace.note(m.id, "is parted from the others")
	for _, other := range w.machines {
		w.net.setCut(m.id, other.id, true)
		w.net.setCut(other.id, m.id, true)
	}
}

func (w *world) heal() { clear(w.net.cut) }

func (w *world) slowNetwork() {
	w.net.calm = between(w.script, 100*time.Microsecond, 50*time.Millisecond)
	w.net.worst = w.net.calm + between(w.script, time.Millisecond, 800*time.Millisecond)
}

func (w *world) lossyNetwork() { w.net.lose, w.net.twice = 3+w.script.IntN(20), 2+w.script.IntN(10) }

func (w *world) slowDisk() {
	w.anyMachine().disk.worst = between(w.script, time.Millisecond, 2*time.Second)
}

// transfer hands mastership over, through whichever replica. Another may get in
// before it is done.
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
			if !w.mended {
				w.campaign(next)
			}
		})
	}
	if p := from.process; p != nil && p.master != nil {
		go func() { _, _ = p.master.Transfer(p.gone, to) }()
	}
}

func (w *world) timeoutNow() { w.campaign(w.anyMachine()) }

// campaign delivers the message that makes a replica campaign at once: a late or
// repeated one, of a transfer that is long over.
func (w *world) campaign(m *machine) {
	p := m.process
	if p == nil {
		return
	}
	go p.wire.take(raft.RPC{
		Command:  &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}},
		RespChan: make(chan raft.RPCResponse, 1),
	})
}

// pretend makes the replicas believe for a while that they do not lead.
func (w *world) pretend() {
	span := between(w.script, time.Millisecond, time.Second)
	for _, m := range w.machines {
		m.deposed = w.now() + span
		m.tell()
		w.later(span+time.Millisecond, m.tell)
	}
}

// tell has the machine's process look again who leads.
func (m *machine) tell() {
	select {
	case m.notice <- struct{}{}:
	default:
	}
}

func (w *world) killUser() { w.anyUser().kill() }

// cutUser parts a client from the cell for a while.
func (w *world) cutUser() {
	u := w.anyUser()
	set := func(cut bool) {
		for _, m := range w.machines {
			w.net.setCut(u.name, m.id, cut)
			w.net.setCut(m.id, u.name, cut)
		}
	}
	set(true)
	w.later(between(w.script, 10*time.Millisecond, 8*time.Second), func() { set(false) })
}

// killSession is an operator's deed.
func (w *world) killSession() {
	u := w.anyUser()
	if u.session == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(u.ctx, 5*time.Second)
		defer cancel()
		_ = u.client.KillSession(ctx, u.session.ID())
	}()
}
