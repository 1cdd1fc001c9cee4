package simcell

import (
	"context"
	"time"

	"github.com/stoutlock/stout/client/admin"
)

// A run is a script of steps. Each step draws a fault, or none, and lets some
// time pass. The draw depends on the seed and the earlier steps, not on the
// number of later ones. So a run with fewer steps is a prefix of one with more.

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
	{"client cut off", 6, (*world).cutUser},
	{"mute client", 6, (*world).muteUser},
	{"siege", 5, plot((*world).siege)},
	{"overtaken master", 6, plot((*world).overtaken)},
	{"late resignation", 3, plot((*world).lateResignation)},
	{"late opening", 2, plot((*world).lateOpening)},
	{"late batch", 2, plot((*world).lateBatch)},
	{"unshared entry", 2, plot((*world).unsharedEntry)},
	{"torn vote", 2, (*world).tornVote},
	{"directory put back", 2, plot((*world).putBack)},
	{"waiter failover", 3, plot((*world).waiterFailover)},
	{"kill of a session", 2, (*world).killSession},
	{"wiped disk", 3, (*world).wipeOne},
	{"old disk", 2, (*world).oldDisk},
	{"replacement", 6, (*world).replaceOne},
	{"inheritance", 3, plot((*world).inheritance)},
	{"forgetful leader", 2, plot((*world).forgetfulLeader)},
	{"eager successor", 2, plot((*world).eagerSuccessor)},
	{"lapse", 1, plot((*world).lapse)},
	{"lagging voter", 2, (*world).laggingVoter},
	{"late answers", 1, plot((*world).lateAnswers)},
	{"taking back too late", 1, (*world).tooLate},
	{"hungry voter", 1, (*world).hungryVoter},
	{"late snapshot", 2, plot((*world).lateSnapshot)},
	{"late heartbeat", 2, (*world).lateHeartbeat},
	{"relayed event", 2, plot((*world).relayedEvent)},
	{"recount", 1, plot((*world).recount)},
	{"lost answer", 2, plot((*world).lostAnswer)},
	{"lost session", 2, plot((*world).lostSession)},
	{"lost news", 2, (*world).lostNews},
	{"late list", 1, plot((*world).lateList)},
	{"slow master", 4, plot((*world).slowMaster)},
	{"stop in good order", 3, (*world).stopOne},
	// Only special profiles have these (see special).
	{"second thoughts", 0, plot((*world).secondThoughts)},
	{"outlived office", 0, plot((*world).outlived)},
	{"late acquire", 0, (*world).lateAcquire},
	{"unfit master", 0, (*world).unfit},
	{"unanswered entries", 0, plot((*world).unanswered)},
	{"stalled keepalive", 0, plot((*world).stalledKeepalive)},
	{"late word", 0, plot((*world).lateWord)},
	{"late check", 0, plot((*world).lateCheck)},
}

// mostPlay is the latest end of the script. Steps of some profiles take long,
// and the garbage of a run stays in memory until its end (see package overlay).
const mostPlay = 6 * time.Minute

// play runs the script.
func (w *world) play() {
	w.pauses = true
	switch w.script.IntN(12) {
	case 0, 1, 2:
		w.disturbFounding()
	case 3:
		w.shortFounding()
	case 4:
		w.tornFounding()
	}
	for w.now() < 8*time.Second && !w.hasMaster() && !w.isOver() { // the first election
		w.until(50 * time.Millisecond)
	}
	w.memberOperator.absentee()
	for w.step = 1; w.step <= w.opts.Steps && w.now() < mostPlay && !w.failed(); w.step++ {
		if n := weighed(w.script, w.profile.weights); n > 0 {
			a := &actions[n]
			w.trace.note("script", "%s", a.name)
			w.stats.fault(a.name)
			a.do(w)
		}
		w.until(between(w.script, time.Millisecond, 1500*time.Millisecond))
		w.oracle.look()
	}
}

// until lets d pass, or less if the run ends first.
func (w *world) until(d time.Duration) { sleep(d, w.over) }

// sleep lets d pass, or less if end is closed first.
func sleep(d time.Duration, end <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-end:
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

// mend ends all faults permanently.
func (w *world) mend() {
	w.faultsOver, w.pauses = true, false
	w.profile.stuck, w.net.again = 0, 0
	w.heal()
	w.net.fair()
	for _, m := range w.machines {
		m.deposed, m.fatal, m.freeze, m.snag, m.tardy = 0, 0, 0, 0, 0
		m.disk.least, m.disk.worst, m.disk.heavy, m.disk.hangs = 0, 2*time.Millisecond, 0, false
		if p := m.process; p != nil && p.closed != nil {
			m.crash()
		}
		m.wake()
		m.restart(false)
		m.notify()
	}
}

func (w *world) anyMachine() *machine { return w.machines[w.script.IntN(len(w.machines))] }
func (w *world) anyUser() *user       { return w.users[w.script.IntN(len(w.users))] }

// restart starts a machine again, perhaps with a reset clock.
func (m *machine) restart(reboot bool) {
	if m.process != nil || m.w.isOver() {
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

// crashInWrite crashes a machine in one of its next writes to its disk.
func (w *world) crashInWrite() {
	m, reboot := w.anyMachine(), w.script.IntN(3) == 0
	m.fatal = 1 + w.script.IntN(8) // in syncs: most writes take two
	m.afterCrash = between(w.script, time.Millisecond, time.Second)
	m.reboots = reboot
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
	if w.script.IntN(2) == 0 { // also from the clients
		for _, u := range w.users {
			w.net.setCut(id, u.name, true)
			w.net.setCut(u.name, id, true)
		}
	}
}

// part cuts a machine off from the others, not from the clients.
func (w *world) part(m *machine) {
	w.trace.note(m.id, "is cut off from the others")
	for _, other := range w.machines {
		w.net.setCut(m.id, other.id, true)
		w.net.setCut(other.id, m.id, true)
	}
}

func (w *world) heal() {
	clear(w.net.cut)
	clear(w.net.lag)
}

func (w *world) slowNetwork() {
	w.net.calm = between(w.script, 100*time.Microsecond, 50*time.Millisecond)
	w.net.worst = w.net.calm + between(w.script, time.Millisecond, 800*time.Millisecond)
	w.net.stuck = pick(w.script, w.profile.stuck, w.profile.stuck, 30)
}

func (w *world) lossyNetwork() { w.net.lose, w.net.twice = 3+w.script.IntN(20), 2+w.script.IntN(10) }

func (w *world) slowDisk() {
	w.anyMachine().disk.worst = between(w.script, time.Millisecond, 2*time.Second)
}

// notify makes the machine's process check again which replica leads.
func (m *machine) notify() {
	select {
	case m.notice <- struct{}{}:
	default:
	}
}

func (w *world) killUser() { w.anyUser().kill() }

// cutUser cuts a client off from the cell for a while.
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

// muteUser loses everything that a client sends for a while. Answers still
// reach it, so it counts on the last ones while the cell gets nothing from it.
func (w *world) muteUser() { w.mute(w.anyUser(), between(w.script, time.Second, 12*time.Second)) }

func (w *world) mute(u *user, d time.Duration) {
	w.trace.note(u.name, "is mute for %v", d)
	set := func(cut bool) {
		for _, m := range w.machines {
			w.net.setCut(u.name, m.id, cut)
		}
	}
	set(true)
	w.later(d, func() { set(false) })
}

// killSession is an operator's action.
func (w *world) killSession() {
	u := w.anyUser()
	if u.session == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(u.ctx, 5*time.Second)
		defer cancel()
		_ = admin.New(u.client).KillSession(ctx, u.session.ID())
	}()
}
