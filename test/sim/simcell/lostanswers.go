package simcell

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// lostAnswer: keyed writes are forwarded to a master that no longer answers, or
// that can't know their outcome. There is no other master until the forwarding
// replicas give up. The next master may still execute the writes.
func (w *world) lostAnswer(old, _ *machine) {
	w.net.worst = 2 * w.net.calm
	var others []*machine
	for _, m := range w.machines {
		if m != old {
			others = append(others, m)
		}
	}
	for i, u := range w.users {
		if u.session != nil {
			go u.sendsKeyed(u.ctx, others[i%len(others)].id, u.session.ID())
		}
	}
	w.until(between(w.script, 200*time.Microsecond, 5*time.Millisecond))
	for i, m := range others { // cut off from all but their clients
		for _, other := range others[:i] {
			w.net.setCut(m.id, other.id, true)
			w.net.setCut(other.id, m.id, true)
		}
		w.net.setCut(m.id, old.id, true)
	}
	if w.script.IntN(2) == 0 {
		w.until(between(w.script, time.Millisecond, 10*time.Millisecond))
		old.crash()
	}
	w.until(5 * time.Second)
	w.net.fair()
	w.heal()
	old.restart(false)
	w.soon(w.hasMaster)
	w.until(500 * time.Millisecond)
}

// lostSession: keyed writes are forwarded to a master that executes them. Its
// answers are lost, it dies, and the sessions end before the forwarding replica
// finds the next master. No caller may get the answer that an executed write
// had no effect.
func (w *world) lostSession(old, next *machine) {
	sessions := make([]string, len(w.users))
	for i, u := range w.users {
		u.handles++
		sessions[i] = u.open(u.ctx, next.id, fmt.Sprintf("lost-%s-%d", u.name, u.handles), 10*time.Second)
	}
	w.net.worst = 2 * w.net.calm
	dead, over := make(chan struct{}), make(chan struct{}, len(w.users))
	for i, u := range w.users {
		go u.writesAndCloses(u.ctx, next.id, sessions[i], dead, over)
	}
	w.until(between(w.script, 200*time.Microsecond, 5*time.Millisecond))
	w.net.setCut(old.id, next.id, true)
	w.until(between(w.script, 10*time.Millisecond, 200*time.Millisecond))
	old.crash()
	close(dead)
	for range w.users {
		<-over
	}
	w.net.fair()
	w.heal()
	old.restart(false)
	w.soon(w.hasMaster)
}

// lostNews: an operator releases a lock by force, and the master changes before
// a keepalive has reported that to the session. The next master must report it.
func (w *world) lostNews() {
	old, next := w.well()
	if old == nil || w.oracle.latest().Level < 5 { // losses are not kept
		return
	}
	u := w.anyUser()
	u.handles++
	key := fmt.Sprintf("untold-%s-%d", u.name, u.handles)
	session := u.open(u.ctx, old.id, key, 20*time.Second)
	p := u.newPair(session, "/"+key)
	epoch := w.oracle.latest().Epoch
	if session == "" {
		return
	}
	g, _, err := u.request(u.ctx, 2*time.Second, old.id, p, lockapi.NewLockRequest(session))
	if err != nil {
		return
	}
	var r lockapi.Released
	route := lockapi.RouteLocks + p.path + fmt.Sprintf("?session=%s&handle=%s&token=%d&by_force=true", session, p.handle, g.Token)
	if u.send(u.ctx, 2*time.Second, old.id, u.message(http.MethodDelete, route, nil, &r)) != nil || !r.Released {
		return
	}
	if w.script.IntN(2) == 0 {
		w.handOver(old, next)
	} else {
		old.crash()
	}
	if !w.soon(func() bool { m := w.leader(old); return m != nil && m.process.master.Lease().Held }) {
		return
	}
	for range 5 { // the new master may go, too
		got, err := u.keepalive(u.ctx, u.anyone(), session, 0, false)
		if err != nil || got.Epoch <= epoch {
			w.until(100 * time.Millisecond)
			continue
		}
		w.stats.check("the next master reports a loss")
		if !slices.ContainsFunc(got.Events, func(e lockapi.Event) bool { return e.Type == lockapi.EventLockLost && e.Token == g.Token }) {
			w.fail("the master of epoch %d does not report to session %s that token %d on %s is lost", got.Epoch, session, g.Token, p.path)
		}
		break
	}
	u.bareClose(u.ctx, u.anyone(), session)
}

// writesAndCloses sends one keyed write once, through one replica. It closes
// the session through another as soon as the master is dead.
func (u *user) writesAndCloses(ctx context.Context, at, session string, dead <-chan struct{}, over chan<- struct{}) {
	defer func() { over <- struct{}{} }()
	if session == "" {
		return
	}
	written := make(chan struct{})
	go func() {
		u.sendsKeyed(ctx, at, session)
		close(written)
	}()
	<-dead
	for {
		select {
		case <-written:
			return
		case <-ctx.Done(): // the client has crashed
			<-written
			return
		default:
			u.bareClose(ctx, u.anyone(), session)
			u.wait(ctx, 100*time.Millisecond)
		}
	}
}

// sendsKeyed sends one keyed write once. A refusal means that it has no effect,
// now or later.
func (u *user) sendsKeyed(ctx context.Context, at, session string) {
	w := u.newWrite(session, u.anyFile())
	u.putOnce(ctx, 20*time.Second, at, w, message{route: lockapi.RouteFiles + w.paths[0] + "?session=" + session, key: "once-" + w.content})
}
