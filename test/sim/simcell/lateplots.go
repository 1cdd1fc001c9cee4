package simcell

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// In these plots something arrives late that is no longer true, or not yet: a
// snapshot, a heartbeat, an event, a list, a request.

// lateSnapshot: a replica that was cut off for longer than a lease gets a
// snapshot of the whole log and is elected before it stores anything else. Only
// the snapshot informs it of the lease that it must wait for.
func (w *world) lateSnapshot(old, next *machine) {
	if w.snapshotAfter > 100 {
		return
	}
	w.part(next)
	parted := w.now()
	for range 8 {
		w.besiege(old)
		w.until(100 * time.Millisecond)
		w.muteAll(1500 * time.Millisecond)
		before := old.disk.low
		cut := w.soonIn(1200*time.Millisecond, func() bool { return old.disk.low != before })
		lacks := old.disk.low > next.disk.high+1 && old.disk.high < old.disk.low+trailing
		if cut && lacks && w.now()-parted > old.lease*5/4 {
			break
		}
		w.until(400 * time.Millisecond)
	}
	if w.leader() != old || old.disk.low <= next.disk.high+1 {
		return
	}
	old.tardy = 2500 * time.Millisecond // so that nothing follows the snapshot
	w.heal()
	w.muteAll(3 * time.Second)
	last := old.disk.high
	got := w.soonIn(2*time.Second, func() bool {
		return next.process != nil && next.process.replica != nil && next.process.replica.Health().Applied >= last
	})
	if got {
		w.part(old)
		w.campaign(next)
		w.soonIn(time.Second, func() bool { return w.leader(old) != nil })
	}
	old.tardy = 0
	w.until(between(w.script, 10*time.Millisecond, time.Second))
	w.heal()
}

// unanswered: the leader takes a snapshot, and then all answers of a follower
// are lost. The follower has more entries than the leader knows, takes a
// snapshot after them, and cuts its log. When its answers arrive again,
// replication continues, although the leader's snapshot is older.
func (w *world) unanswered(old, next *machine) {
	if w.snapshotAfter > 100 {
		return
	}
	alone := false
	for range 8 {
		ours, theirs := old.disk.low, next.disk.low
		w.besiege(old)
		alone = w.soonIn(1200*time.Millisecond, func() bool { return old.disk.low != ours }) && next.disk.low == theirs
		if alone {
			break
		}
	}
	if !alone {
		return
	}
	known := next.disk.high
	for _, other := range w.machines {
		w.net.setCut(next.id, other.id, true)
	}
	w.besiege(old)
	cut := w.soonIn(2*time.Second, func() bool { return next.disk.low > known+1 })
	w.muteAll(6 * time.Second)
	low, high := old.disk.low, old.disk.high
	w.heal()
	goesOn := w.soonIn(5*time.Second, func() bool { return next.disk.high > high || old.disk.low != low || w.leader() != old })
	if cut && !goesOn && next.process != nil {
		w.fail("%s has entries up to %d and gets no more: its master has entries up to %d", next.id, next.disk.high, old.disk.high)
	}
}

// lateHeartbeat: the first heartbeat of a leader reaches a replica with a slow
// disk while that votes for another, in the next term. Both are leaders then,
// and the earlier term's leader reaches the voter first. It needs a cell of
// exactly three.
func (w *world) lateHeartbeat() {
	if len(w.machines) != 3 || !w.whole() {
		return
	}
	old, next := w.rivals()
	if old == nil {
		return
	}
	var voter *machine
	for _, m := range w.machines {
		if m != old && m != next {
			voter = m
		}
	}
	w.net.worst = 2 * w.net.calm
	defer w.net.fair()
	for _, m := range w.machines {
		defer func(worst time.Duration) { m.disk.worst = worst }(m.disk.worst)
		m.disk.worst = 100 * time.Microsecond
	}
	const late = 300 * time.Millisecond
	w.net.lag[[2]string{next.id, voter.id}] = late
	w.handOver(old, next)
	if !w.soonIn(5*time.Second, next.leads) {
		return
	}
	w.until(late - between(w.script, 4*time.Millisecond, 24*time.Millisecond))
	w.net.setCut(old.id, next.id, true)
	w.net.setCut(next.id, old.id, true)
	w.net.lag[[2]string{next.id, voter.id}] = 0
	voter.disk.least = between(w.script, 10*time.Millisecond, 40*time.Millisecond)
	w.campaign(old)
	w.until(30 * time.Millisecond)
	w.net.lag[[2]string{old.id, voter.id}] = 250 * time.Millisecond
	w.until(30 * time.Millisecond)
	voter.disk.least = 0
	for range 4 {
		w.besiege(next)
		w.until(50 * time.Millisecond)
	}
	w.until(between(w.script, 100*time.Millisecond, time.Second))
	w.heal()
	w.until(300 * time.Millisecond)
}

// relayedEvent: a master with lost follower answers writes files. Its successor
// commits these writes but still waits for the end of the old lease. Users that
// see an event at any replica then read at the old master.
func (w *world) relayedEvent(old, next *machine) {
	w.net.worst = 2 * w.net.calm
	defer w.net.fair()
	for _, m := range w.machines {
		defer func(worst time.Duration) { m.disk.worst = worst }(m.disk.worst)
		m.disk.worst = 100 * time.Microsecond
	}
	w.until(50 * time.Millisecond)
	for i, u := range w.users {
		at := w.machines[(i+w.script.IntN(2))%len(w.machines)]
		if at != old {
			go u.passesOn(u.ctx, at.id, old.id)
		}
	}
	w.until(5 * time.Millisecond)
	w.deafen(old)
	for _, u := range w.users {
		go u.overwrites(u.ctx, old.id)
	}
	w.until(between(w.script, 2*time.Millisecond, 30*time.Millisecond))
	w.campaign(next)
	w.old = old
	w.until(600 * time.Millisecond)
	w.heal()
}

// passesOn waits for events at one replica, and then reads files at another
// one.
func (u *user) passesOn(ctx context.Context, at, then string) {
	for end := u.w.now() + 600*time.Millisecond; u.w.now() < end && !u.w.failed(); {
		w := &watcher{who: u.name, ctx: ctx, after: u.w.oracle.revisions.revision()}
		var got lockapi.EventList
		route := fmt.Sprintf("%s?after=%d&limit=100&wait_ms=500", lockapi.RouteEvents, w.after)
		if err := u.send(ctx, time.Second, at, message{method: http.MethodGet, route: route, out: &got}); err != nil {
			return
		}
		for i := range got.Events {
			u.w.oracle.received(w, &got.Events[i])
		}
		for range min(3, len(got.Events)) {
			go u.readsFileAt(ctx, then)
		}
		u.w.until(time.Millisecond)
	}
}

// overwrites writes a file by one bare call.
func (u *user) overwrites(ctx context.Context, at string) {
	w := u.newWrite("", u.anyFile())
	u.putOnce(ctx, 10*time.Second, at, w, u.message("", lockapi.RouteFiles+w.paths[0], nil, nil))
}

// lateList: a user begins to follow files, and the list of them arrives late,
// while others write. The events that it gets must start where the list ends.
func (w *world) lateList(m, _ *machine) {
	u := w.anyUser()
	ctx, cancel := context.WithCancel(u.ctx)
	defer cancel()
	for _, from := range w.machines {
		w.net.lag[[2]string{from.id, u.name}] = between(w.script, 20*time.Millisecond, 300*time.Millisecond)
	}
	go u.followsOnce(ctx)
	for range 20 {
		other := w.anyUser()
		go other.overwrites(other.ctx, m.id)
		w.until(between(w.script, 10*time.Millisecond, 100*time.Millisecond))
	}
	w.until(time.Second)
	w.heal()
}

// followsOnce keeps a copy of files for a while.
func (u *user) followsOnce(ctx context.Context) {
	f := &follower{files: map[string]uint64{}, ctx: ctx}
	for change, err := range u.client.Follow(ctx, followed) {
		if err != nil || u.w.failed() {
			return
		}
		u.w.oracle.followed(u.name+" for a while", f, &change)
	}
}

// lateAcquire: a Lock is given up while its request is on its way, the SDK
// checks its session, and then the request arrives. The SDK must release the
// hold.
func (w *world) lateAcquire() {
	u := w.anyUser()
	ctx, cancel := context.WithTimeout(u.ctx, 10*time.Second)
	s, err := u.client.NewSession(ctx, client.TTL(3*time.Second), client.Name(u.name+" late"))
	cancel()
	if err != nil {
		return
	}
	late := between(w.script, time.Second, 8*time.Second)
	for _, m := range w.machines {
		w.net.lag[[2]string{u.name, m.id}] = late
	}
	w.later(10*time.Millisecond, w.heal)
	patience := between(w.script, 15*time.Millisecond, 100*time.Millisecond)
	l := u.anyWant()
	ctx, cancel = context.WithTimeout(u.ctx, patience)
	_, err = s.Lock(ctx, l.path, l.options()...)
	cancel()
	if w.until(late); err != nil {
		u.sweeps(u.ctx, s)
	}
	ctx, cancel = context.WithTimeout(u.ctx, 10*time.Second)
	_ = s.Close(ctx)
	cancel()
}

// lateWord: a follower is restarted, and gets late copies of its master's
// messages before new ones. Clients ask it for its own state.
func (w *world) lateWord(old, next *machine) {
	w.besiege(old)
	w.until(between(w.script, 50*time.Millisecond, 300*time.Millisecond))
	old.pause()
	next.crash()
	next.restart(false)
	for end := w.now() + 400*time.Millisecond; w.now() < end && !w.isOver(); w.until(5 * time.Millisecond) {
		go w.asksOwn(w.anyUser().name, next)
	}
	old.wake()
}

// lateCheck: a replica stalls while it serves a guest's call for events. Then
// the guest's token is revoked, and mastership changes.
func (w *world) lateCheck(old, next *machine) {
	if w.access == nil || !w.access.ready {
		return
	}
	one := w.access.guests[w.script.IntN(len(w.access.guests))]
	at := w.anyMachine()
	at.snag, at.snagged = 1+w.script.IntN(12), 2*time.Second
	go one.asksOnce(at.id)
	w.until(20 * time.Millisecond)
	at.snag = 0
	go func() {
		w.access.exchange(w.access.op.ctx, one)
		w.handOver(old, next)
	}()
	w.until(at.snagged)
}

// asksOnce asks a replica for the events after the latest one.
func (g *guest) asksOnce(at string) {
	w := &watcher{who: g.name, after: g.w.oracle.revisions.revision(), asked: asked{prefix: aclDir}}
	secret := g.secrets[len(g.secrets)-1]
	p := &guestCall{who: w.who, sum: sumOf(secret), began: time.Now().UnixNano()}
	var got lockapi.EventList
	m := message{method: http.MethodGet, route: fmt.Sprintf("%s?after=%d%s", lockapi.RouteEvents, w.after, w.asked.query()), out: &got, header: http.Header{}}
	bear(m.header, secret)
	if g.send(g.ctx, 10*time.Second, at, m) == nil {
		for i := range got.Events {
			g.w.oracle.eventReceived(p, w, &got.Events[i])
		}
	}
}
