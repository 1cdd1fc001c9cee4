package simcell

import (
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Plots are schedules of several acts that chance would hardly ever combine.
// During a plot no other fault is added, but earlier steps may still have
// effects.

// plot returns the action that plays a plot in a healthy cell, with the master
// and another machine.
func plot(play func(w *world, old, next *machine)) func(*world) {
	return func(w *world) {
		if old, next := w.well(); old != nil {
			play(w, old, next)
		}
	}
}

// well ends the faults that it can and waits for a master. It returns that and
// another machine, or nil.
func (w *world) well() (old, next *machine) {
	w.heal()
	w.net.fair()
	for _, m := range w.machines {
		m.wake()
		m.restart(false)
	}
	w.soon(w.hasMaster)
	return w.rivals()
}

// soon waits until a condition holds, for a while.
func (w *world) soon(so func() bool) bool { return w.awaits(5*time.Second, 3*time.Millisecond, so) }

// soonIn waits until a condition holds, for d at most, and checks often.
func (w *world) soonIn(d time.Duration, so func() bool) bool {
	return w.awaits(d, 500*time.Microsecond, so)
}

// awaits waits until a condition holds, for d at most, and checks it that often.
func (w *world) awaits(d, every time.Duration, so func() bool) bool {
	for end := w.now() + d; w.now() < end && !w.isOver(); w.until(every) {
		if so() {
			return true
		}
	}
	return false
}

// leads reports whether the machine is Raft's leader.
func (m *machine) leads() bool {
	if m.process == nil || m.process.replica == nil {
		return false
	}
	_, leads := m.process.replica.Leading()
	return leads
}

// handOver starts a transfer of mastership.
func (w *world) handOver(from, to *machine) {
	if p := from.process; p != nil && p.master != nil {
		go func() {
			_, _ = p.master.TransferMastership(p.gone, w.operator(), &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: to.id}})
		}()
	}
}

// siege makes all clients call the master at the same time. One of its
// goroutines may stall during that. Some clients are muted after it.
func (w *world) siege(old, _ *machine) {
	w.besiege(old)
	if w.script.IntN(3) > 0 {
		old.snag, old.snagged = 1+w.script.IntN(100), between(w.script, 100*time.Millisecond, 1500*time.Millisecond)
	}
	w.until(between(w.script, 3*time.Millisecond, 50*time.Millisecond))
	old.snag = 0
	for _, u := range w.users {
		if w.script.IntN(2) == 0 {
			w.mute(u, between(w.script, time.Second, 10*time.Second))
		}
	}
}

// stalledKeepalive: the master stalls while it serves the last keepalive of a
// session. The caller counts on the session until the end of its ttl.
func (w *world) stalledKeepalive(m, _ *machine) {
	const ttl = 2 * time.Second
	u := w.anyUser()
	u.handles++
	id := u.open(u.ctx, m.id, fmt.Sprintf("stalled-%s-%d", u.name, u.handles), ttl)
	if id == "" {
		return
	}
	m.snag, m.snagged = 1+w.script.IntN(12), between(w.script, 100*time.Millisecond, 1500*time.Millisecond)
	go u.bareKeepalive(u.ctx, m.id, id, 0)
	w.until(20 * time.Millisecond)
	m.snag = 0
	w.until(ttl + m.snagged)
}

// overtaken: a master is paused, perhaps during a call, until its successor has
// been in office for a while. Some clients can reach only the paused one. They
// call again when it resumes, and are muted after that. Others ask it to close
// a session that they opened at the successor.
func (w *world) overtaken(old, next *machine) {
	w.old = old
	w.besiege(old)
	var faithful []*user
	for _, u := range w.users {
		if w.script.IntN(2) == 0 {
			faithful = append(faithful, u)
			w.confine(u, old)
		}
	}
	if w.script.IntN(2) == 0 {
		old.freeze = 1 + w.script.IntN(60)
	}
	w.until(between(w.script, 100*time.Microsecond, 5*time.Millisecond))
	old.freeze = 0
	old.pause()
	w.campaign(next)
	w.soon(func() bool { return w.leader(old) != nil })
	for _, u := range w.users {
		if !slices.Contains(faithful, u) {
			go u.spare(u.ctx, next.id)
		}
	}
	w.until(between(w.script, 20*time.Millisecond, 2*time.Second))
	w.besiege(old)
	w.until(between(w.script, time.Microsecond, 3*time.Millisecond))
	old.wake()
	w.until(between(w.script, time.Microsecond, 5*time.Millisecond))
	muted := between(w.script, time.Second, 10*time.Second)
	for _, u := range faithful {
		w.mute(u, muted)
	}
}

// confine lets a client reach one machine only.
func (w *world) confine(u *user, to *machine) {
	for _, m := range w.machines {
		w.net.setCut(u.name, m.id, m != to)
	}
}

// lateResignation: a master hands over in good order and does not learn the
// result: its successor need not wait for it. Clients that wait at it may reach
// no other replica, and are muted after it has answered.
func (w *world) lateResignation(old, next *machine) {
	switch w.script.IntN(3) {
	case 0: // no call is under way, and the closing entry is sent at once
		w.muteAll(500 * time.Millisecond)
		w.until(400 * time.Millisecond)
		w.deafen(old)
		w.handOver(old, next)
	default:
		w.besiege(old)
		w.handOver(old, next)
	}
	w.until(between(w.script, 50*time.Microsecond, 10*time.Millisecond))
	if w.script.IntN(2) == 0 {
		w.deafen(old)
	} else {
		old.pause()
		w.later(between(w.script, 100*time.Millisecond, 4*time.Second), old.wake)
	}
	if w.script.IntN(2) == 0 {
		for _, u := range w.users {
			w.confine(u, old)
		}
	}
	w.until(between(w.script, 100*time.Microsecond, 20*time.Millisecond))
	w.campaign(next)
	w.old = old
	w.until(between(w.script, 100*time.Millisecond, time.Second))
	for _, u := range w.users {
		w.mute(u, between(w.script, time.Second, 10*time.Second))
	}
	w.until(between(w.script, 10*time.Millisecond, time.Second))
	w.heal()
}

// muteAll mutes all clients for a while.
func (w *world) muteAll(d time.Duration) {
	for _, u := range w.users {
		w.mute(u, d)
	}
	if w.access != nil {
		w.mute(w.access.op, d)
		for _, one := range w.access.guests {
			w.mute(one.user, d)
		}
	}
}

// lateAnswers: the master's answers take long. After clients have received the
// answer to a keepalive, their later messages are lost.
func (w *world) lateAnswers(m, _ *machine) {
	late := between(w.script, 300*time.Millisecond, 1500*time.Millisecond)
	for _, u := range w.users {
		w.net.lag[[2]string{m.id, u.name}] = late
	}
	w.until(late + between(w.script, time.Second, 4*time.Second))
	for _, u := range w.users {
		if w.script.IntN(2) == 0 {
			w.trace.note(u.name, "is mute from now on")
			for _, m := range w.machines {
				w.net.setCut(u.name, m.id, true)
			}
		}
	}
	w.until(between(w.script, 2*time.Second, 8*time.Second))
	w.heal()
}

// lateOpening: a new leader is delayed before it opens its office. Before that
// another opens one, and loses the leadership to the first again.
func (w *world) lateOpening(old, next *machine) {
	w.handOver(old, next)
	if !w.soon(next.leads) {
		return
	}
	next.snag, next.snagged = 1+w.script.IntN(12), between(w.script, 200*time.Millisecond, 2*time.Second)
	w.until(between(w.script, time.Millisecond, 50*time.Millisecond))
	w.campaign(old)
	w.soon(func() bool { return w.leader() == old })
	w.campaign(next)
	w.until(between(w.script, 10*time.Millisecond, time.Second))
	next.snag = 0
}

// lateBatch: calls are delayed on their way into the log, while their office
// ends and the same leader opens the next one.
func (w *world) lateBatch(m, _ *machine) {
	w.besiege(m)
	m.snag, m.snagged = 1+w.script.IntN(40), between(w.script, 50*time.Millisecond, 2*time.Second)
	w.until(between(w.script, 500*time.Microsecond, 20*time.Millisecond))
	m.pretend(between(w.script, time.Millisecond, 100*time.Millisecond))
	w.until(between(w.script, 10*time.Millisecond, time.Second))
	m.snag = 0
}

// unsharedEntry: a master crashes with an entry that no other replica has. It
// returns while its successor's disk hangs. Just when the successor gets the
// first entry of its own, it sends a message to the first that it had begun to
// build before.
func (w *world) unsharedEntry(old, next *machine) {
	w.part(old)
	w.besiege(old)
	shared := old.disk.high
	w.soon(func() bool { return old.disk.high > shared || !old.leads() })
	old.crash()
	w.heal()
	hang := func(all bool) {
		for _, m := range w.machines {
			m.disk.hangs = all && m.leads()
		}
	}
	for _, m := range w.machines {
		m.disk.hangs = true
	}
	w.campaign(next)
	w.soon(func() bool { return w.anyLeads(w.machines) })
	hang(true)
	old.restart(false)
	for end := w.now() + 800*time.Millisecond; w.now() < end && !old.follows() && !w.isOver(); {
		w.until(time.Millisecond)
	}
	// The library waits for one to two of its CommitTimeouts, and 10 ms after
	// earlier failures.
	w.until(50*time.Millisecond + time.Duration(w.script.Int64N(int64(60*time.Millisecond))))
	hang(false)
	w.until(500 * time.Millisecond)
}

// follows reports whether the machine's process knows a leader.
func (m *machine) follows() bool {
	return m.process != nil && m.process.replica != nil && m.process.replica.Leader() != ""
}

// inheritance: mastership changes while users wait for locks that they hold
// themselves under another handle.
func (w *world) inheritance(old, next *machine) {
	for _, u := range w.users {
		if u.session != nil {
			go u.inherits(u.ctx, u.session)
		}
	}
	w.until(between(w.script, 20*time.Millisecond, 500*time.Millisecond))
	switch w.script.IntN(3) {
	case 0:
		w.handOver(old, next)
	case 1:
		w.campaign(next)
	default:
		old.crash()
		w.later(time.Second, func() { old.restart(false) })
	}
	w.soon(func() bool { return w.leader(old) != nil })
	w.until(between(w.script, 100*time.Millisecond, 3*time.Second))
}

// tornVote: a replica crashes in a write of its vote. A replica that it voted
// for before, and that lacks later commits, campaigns in the same term. It
// needs a cell of exactly three.
func (w *world) tornVote() {
	if len(w.machines) != 3 || !w.whole() {
		return
	}
	voter, former := w.voter()
	if voter == nil {
		return
	}
	i := slices.IndexFunc(w.machines, func(m *machine) bool { return m != voter && m != former })
	third := w.machines[i]
	w.part(voter)
	w.handOver(former, third) // with former's vote, and the office need not wait
	if !w.soon(third.leads) {
		return
	}
	w.heal()
	former.crash()
	if !w.soon(func() bool { return w.leader(former) == third }) {
		return
	}
	w.part(voter)
	voter.fatal, voter.afterCrash, voter.reboots = pick(w.script, 4, 5), 5*time.Millisecond, false
	before := voter.process
	w.campaign(voter)
	if !w.soon(func() bool { return voter.process != before && voter.runs() }) {
		return
	}
	w.heal()
	w.part(third)
	former.restart(false) // as a follower: a candidate can't be made to campaign
	w.soon(former.runs)
	w.campaign(former)
	w.until(500 * time.Millisecond)
	w.heal()
}

// runs reports whether the machine's process has started.
func (m *machine) runs() bool { return m.process != nil && m.process.replica != nil }

// voter returns the master, and a machine that last voted for it.
func (w *world) voter() (voter, former *machine) {
	former = w.leader()
	for _, m := range w.machines {
		if m != former && former != nil && string(m.disk.votes["LastVoteCand"]) == former.disk.who.ServerID() {
			return m, former
		}
	}
	return nil, nil
}
