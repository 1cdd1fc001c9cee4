package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// longPoll bounds how long one call waits at the server, so that connections do
// not idle for longer than the boxes between here and there tolerate.
const longPoll = 30 * time.Second

// keeper keeps a session alive.
type keeper struct {
	s       *Session
	stop    context.CancelFunc // ends run
	stopped chan struct{}      // closed when run has ended
	epoch   atomic.Uint64      // of the master that answered last
	ack     uint64             // the highest event seen; of run's goroutine only
	overdue bool               // the last answer was late at a master that answers others; likewise
	poll    poll
}

// poll is the keepalive under way.
type poll struct {
	mu   sync.Mutex         // guards the following
	cut  context.CancelFunc // ends it; nil before the first
	long bool               // it waits at the server, or may
}

// begin notes a keepalive that cut ends.
func (p *poll) begin(cut context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.long = cut, true
}

// short notes that the keepalive does not wait at the server.
func (p *poll) short() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.long = false
}

// cutNow ends the keepalive under way, for another to be made.
func (p *poll) cutNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil {
		p.cut()
	}
}

// cutLong is cutNow where the keepalive waits at the server.
func (p *poll) cutLong() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.long && p.cut != nil {
		p.cut()
	}
}

// run keeps the session alive until it is over.
//
// While all goes well one call is always waiting at the master, which answers
// when a third of the lease is left. After a failure the next replica is asked
// to answer at once, with a short time-out, until one does: the third that is
// left is enough for several such attempts. The limiter has the sessions of a
// client make them a few at a time.
func (k *keeper) run(ctx context.Context) {
	s := k.s
	defer close(k.stopped)
	defer k.stop()
	defer s.c.limiter.count(-1)
	var pause backoff
	for failures := 0; ctx.Err() == nil; {
		began := s.c.clock.now()
		news, err := k.keepalive(ctx, failures)
		switch {
		case ctx.Err() != nil || errors.Is(err, errCut):
		case err == nil:
			s.reconciler.run(ctx)
			// Whoever answers too soon is not asked in a loop. The answer that
			// ends failures was asked for at once, and the next one is not:
			// were there a pause, the connections of a herd would lie idle
			// together, in greater numbers than are kept.
			switch {
			case news:
				sleep(ctx, began+firstPause-s.c.clock.now())
			case failures == 0:
				sleep(ctx, began+s.ttl/20-s.c.clock.now())
			}
			failures = 0
			pause.reset()
		case errors.Is(err, lockapi.CodeSessionNotFound):
			_ = s.expire()
			return
		default:
			s.c.log.Debug("stout: keepalive failed", "session_name", s.name, "error", err)
			failures++
			sleep(ctx, pause.next())
		}
	}
}

// keepalive asks one replica, or those that it sends us on to, and takes the
// answer in. It reports whether the answer brought news.
func (k *keeper) keepalive(ctx context.Context, failures int) (bool, error) {
	var to *route
	for hops := 0; ; hops++ {
		news, next, err := k.ask(ctx, failures, to)
		if to = next; to == nil || hops == mostHops {
			return news, err
		}
	}
}

// ask makes one attempt, over route r unless that is nil, and returns where to
// ask next if a replica sends us on. How long it may wait is counted anew for
// each: a replica that sends us on may have held the call for most of the lease,
// and the next master, which gives the session a whole ttl, would hold it for
// all of the time that it names.
func (k *keeper) ask(ctx context.Context, failures int, r *route) (news bool, next *route, err error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	c := k.s.c
	wait := k.begin(failures, cut)
	var answer lockapi.Keepalive
	q := call{
		method: http.MethodPost, path: lockapi.RouteSessions + "/" + k.s.id + "/keepalive",
		body: encode(lockapi.KeepaliveRequest{WaitMS: wait.Milliseconds(), Ack: k.ack}),
		wait: wait, out: &answer,
		check: verifyKeepalive, want: wanted{epoch: k.epoch.Load()},
	}
	if wait == 0 {
		if !c.limiter.take(ctx) {
			return false, nil, errCut
		}
		defer c.limiter.give()
	}
	if r == nil {
		r = c.calls.targets.pick() // there is one: the session was opened there
	}
	q.late, q.overdue = k.answerTime(r, wait, failures), k.overdue
	sent := c.clock.now()
	if failures > 0 && k.isUrgent() && !r.alive(sent, q.late) {
		err = c.calls.allAtOnce(ctx, r, &q)
	} else if err = c.calls.attempt(ctx, r, &q); err != nil && ctx.Err() == nil {
		_, next = c.calls.classify(ctx, r, &q, err)
	}
	k.overdue = q.overdue
	switch {
	case err == nil:
		return k.renewed(sent, &answer), nil, nil
	case ctx.Err() != nil:
		return false, nil, errCut
	}
	return false, next, err
}

// isUrgent reports whether the lease is about to end. There is no time then to
// ask one replica after the other.
func (k *keeper) isUrgent() bool {
	left := k.s.lease.remaining()
	return left > 0 && left < k.s.ttl*3/10
}

// begin says how long the next call shall wait at the server: until a third
// of the lease is left, or not at all after a failure or when there is
// something to look after.
//
// What cuts the call comes first, and what it is to be cut for is looked at
// next: so nothing falls between the two.
func (k *keeper) begin(failures int, cut context.CancelFunc) (wait time.Duration) {
	k.poll.begin(cut)
	if failures == 0 && !k.s.reconciler.isOverdue() {
		wait = min(max(k.s.lease.remaining()-k.s.ttl/3, 0), longPoll).Truncate(time.Millisecond)
	}
	if wait == 0 {
		k.poll.short()
	}
	return wait
}

// answerTime is how long the answer may be late before the replica counts as
// out of reach. It leaves time for other replicas before the lease ends, and
// grows with the failures, and with the time that answers take on route r, lest
// a slow network keep every answer from arriving.
func (k *keeper) answerTime(r *route, wait time.Duration, failures int) time.Duration {
	if wait > 0 {
		return min(max(k.s.ttl/12, r.patience()), max(k.s.ttl/8, 100*time.Millisecond), 2*time.Second)
	}
	d := min(max(k.s.ttl/12, 200*time.Millisecond), time.Second)
	return min(d<<min(failures/len(k.s.c.calls.targets.known.Load().all), 4), 4*time.Second)
}

// renewed takes a keepalive's answer in, and reports whether there are events
// in it that are new. The lease runs ttl from the moment of the answer, which
// cannot be seen from here; sending + held is never later. Neither is held for
// longer than the call took, nor ttl longer than the session's own, whatever
// the answer says.
func (k *keeper) renewed(sent time.Duration, answer *lockapi.Keepalive) (news bool) {
	s := k.s
	held := milliseconds(answer.HeldMS, s.c.clock.now()-sent)
	if answer.Epoch != k.epoch.Load() {
		k.epoch.Store(answer.Epoch)
		s.reconciler.newMaster = true
		s.locks.askAgain()
	}
	s.c.calls.targets.finder.revised(answer.MembersRevision)
	s.lease.extend(sent + held + milliseconds(answer.TTLMS, s.ttl))
	for i := range answer.Events {
		if e := &answer.Events[i]; e.Seq <= lockapi.MaxToken { // more cannot be acknowledged
			news = news || e.Seq > k.ack
			k.ack = max(k.ack, e.Seq)
			k.notice(e)
		}
	}
	return news
}

// notice takes an event in.
func (k *keeper) notice(e *lockapi.Event) {
	if !k.s.locks.isOurs(e.Handle) {
		return
	}
	switch e.Type {
	case lockapi.EventLockGranted:
		if !k.s.locks.news(e.Path, e.Handle) {
			k.s.reconciler.expectOrphan()
		}
	case lockapi.EventLockWithdrawn:
		k.s.locks.news(e.Path, e.Handle)
	case lockapi.EventLockLost:
		if k.s.locks.lost(e.Path, e.Handle, e.Token) {
			k.s.reconciler.expectOrphan() // a late request may have got the lock again
		}
	}
}

// milliseconds is so many of them, within 0 and most.
func milliseconds(n int64, most time.Duration) time.Duration {
	return time.Duration(min(max(n, 0), most.Milliseconds())) * time.Millisecond
}
