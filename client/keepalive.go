package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

// longPoll bounds how long one call waits at the server, so that middleboxes do
// not drop its idle connection.
const longPoll = 30 * time.Second

// keeper keeps a session alive.
type keeper struct {
	s       *Session
	stop    context.CancelFunc // ends run
	stopped chan struct{}      // closed when run has ended
	epoch   atomic.Uint64      // of the last master that answered
	poll    poll

	// The following are of run's goroutine only.
	ack     uint64 // the highest event seen
	overdue bool   // the last answer was late, but the master answered others
	quiet   bool   // no event has come since a keepalive waited for one; see together
	fresh   bool   // the session is new, or has a new master: the next wait is shorter by a random part
}

// poll is the keepalive under way.
type poll struct {
	mu   sync.Mutex         // guards the following
	cut  context.CancelFunc // ends it; nil before the first
	long bool               // it waits at the server, or may
}

// begin records a keepalive that cut ends.
func (p *poll) begin(cut context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.long = cut, true
}

// short records that the keepalive does not wait at the server.
func (p *poll) short() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.long = false
}

// end ends the keepalive under way, so that another one is made; with ifLong
// only if it waits at the server.
func (p *poll) end(ifLong bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut != nil && (p.long || !ifLong) {
		p.cut()
	}
}

// run keeps the session alive until it is over.
//
// In normal operation one call always waits at the master, which answers when a
// third of the lease is left. After a failure the next replica is asked to
// answer at once, with a short time-out, until one does; the remaining third is
// enough for several attempts. The limiter lets only a few sessions of a client
// do so at a time.
func (k *keeper) run(ctx context.Context) {
	s := k.s
	defer close(k.stopped)
	defer k.stop()
	defer s.c.limiter.count(-1)
	var pause timing.Backoff
	for failures := 0; ctx.Err() == nil; {
		began := s.c.clock.now()
		news, err := k.keepalive(ctx, failures)
		switch {
		case ctx.Err() != nil || errors.Is(err, call.ErrCut):
		case err == nil:
			s.reconciler.run(ctx)
			// A pause follows an answer that came too soon. The answer that ends
			// failures was requested at once, and the next one waits at the
			// server. A pause before that would leave the connections of many
			// sessions idle together, more than the pool keeps. A long pause would
			// delay the news of a loss.
			switch {
			case news:
				timing.Sleep(ctx, began+timing.MinBackoff-s.c.clock.now())
			case failures == 0:
				timing.Sleep(ctx, began+min(s.ttl/20, timing.MaxBackoff)-s.c.clock.now())
			}
			failures = 0
			pause.Reset(0)
		case isNoSession(err):
			_ = s.expire()
			return
		default:
			s.c.log.Debug("stout: keepalive failed", "session_name", s.name, "error", err)
			failures++
			timing.Sleep(ctx, pause.Next())
		}
	}
}

// keepalive makes a keepalive and reports whether the answer had new events.
func (k *keeper) keepalive(ctx context.Context, failures int) (bool, error) {
	if failures == 0 && k.quiet {
		return k.together(ctx)
	}
	return k.alone(ctx, failures, 0)
}

// alone asks one replica, follows its redirects, and processes the answer. The
// wait ends at the given instant, if it is not 0.
func (k *keeper) alone(ctx context.Context, failures int, until time.Duration) (bool, error) {
	var to *call.Route
	for hops := 0; ; hops++ {
		news, next, err := k.ask(ctx, failures, until, to)
		if to = next; to == nil || hops == call.MostFollowed {
			return news, err
		}
	}
}

// ask makes one attempt, over route r unless that is nil, and returns the next
// route if a replica redirects. The wait is computed anew for each attempt. The
// redirecting replica may have held the call for most of the lease. The next
// master gives the session a whole ttl, and would hold the call for the full
// requested wait.
func (k *keeper) ask(ctx context.Context, failures int, until time.Duration, r *call.Route) (news bool, next *call.Route, err error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	wait := k.begin(failures, cut)
	switch {
	case until != 0:
		wait = min(wait, max(until-k.s.c.clock.now(), time.Millisecond)).Truncate(time.Millisecond)
	case k.fresh:
		wait = (wait - upTo(wait/4)).Truncate(time.Millisecond)
	}
	var answer lockapi.Keepalive
	q := call.Call{
		Method: http.MethodPost, Path: lockapi.RouteSessions + "/" + k.s.id + "/keepalive",
		Body: call.Encode(lockapi.KeepaliveRequest{WaitMS: wait.Milliseconds(), Ack: k.ack}),
		Wait: wait, Out: &answer,
		Check: verifyKeepalive, Required: call.Required{Epoch: k.epoch.Load()},
	}
	sent, next, err := k.s.c.keepAlive(ctx, r, &q, try{failures, k.s.ttl, k.s.lease.remaining, &k.overdue, false, false})
	if err != nil {
		return false, next, err
	}
	news = k.renewed(sent, &answer)
	k.quiet = !news && (k.quiet || wait > 0)
	return news, nil, nil
}

// try is one attempt of a keepalive, of one session or of several with about
// the same ttl.
type try struct {
	failures  int // before it, in a row
	ttl       time.Duration
	remaining func() time.Duration // of the lease
	overdue   *bool                // the last answer was late, but the master answered others
	shared    bool                 // it is for several sessions; a client has few such calls
	part      bool                 // it is a part of a shared one that failed
}

// keepAlive makes one attempt of a keepalive, over route r unless that is nil.
// It returns when it was sent, and the next route if a replica redirects.
func (c *Client) keepAlive(ctx context.Context, r *call.Route, q *call.Call, t try) (sent time.Duration, next *call.Route, err error) {
	if q.Wait == 0 && (!t.shared || t.part) {
		if !c.limiter.acquire(ctx) {
			return 0, nil, call.ErrCut
		}
		defer c.limiter.give()
	}
	if r == nil {
		r, _ = c.calls.Route(ctx) // not nil: the session was opened there
	}
	q.AnswerTime, q.Delayed = c.answerTime(r, q.Wait, t), *t.overdue
	if left := t.remaining(); t.shared && q.Wait == 0 && left > 0 { // leave time for smaller calls, see isHopeless
		before := left - t.ttl/5
		if t.part {
			before = left / 4
		}
		q.AnswerTime = min(q.AnswerTime, max(before, 200*time.Millisecond))
	}
	sent = c.clock.now()
	if t.failures > 0 && t.isUrgent() && !r.Alive(sent, q.AnswerTime) {
		err = c.calls.AttemptMany(ctx, r, q)
	} else {
		next, err = c.calls.Follow(ctx, r, q)
	}
	*t.overdue = q.Delayed
	if err != nil && ctx.Err() != nil {
		return 0, nil, call.ErrCut
	}
	return sent, next, err
}

// isUrgent reports whether the lease is about to end, which leaves no time to
// ask one replica after another.
func (t *try) isUrgent() bool {
	left := t.remaining()
	return left > 0 && left < t.ttl*3/10
}

// begin returns how long the next call waits at the server: until a third of
// the lease is left. After a failure, or when the reconciler is overdue, the
// call does not wait.
//
// It registers cut first and checks the reconciler next, so that no request to
// cut the call is missed.
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

// answerTime bounds how late the answer may be before the replica counts as
// unreachable. It leaves time for other replicas before the lease ends. It
// grows with the failures and with the answer times on route r; otherwise a
// slow network could prevent every answer.
func (c *Client) answerTime(r *call.Route, wait time.Duration, t try) time.Duration {
	if wait > 0 {
		return min(max(t.ttl/12, r.Patience()), max(t.ttl/8, 100*time.Millisecond), 2*time.Second)
	}
	d := min(max(t.ttl/12, 200*time.Millisecond), time.Second)
	return min(d<<min(t.failures/len(c.calls.AllKnown()), 4), 4*time.Second)
}

// renewed processes a keepalive's answer, and reports whether it has new
// events. The lease runs ttl from the moment of the answer, which is unknown
// here; sending + held is never later. held is bounded by the duration of the
// call, and ttl by the session's own, in any answer.
func (k *keeper) renewed(sent time.Duration, answer *lockapi.Keepalive) (news bool) {
	s := k.s
	held := milliseconds(answer.HeldMS, s.c.clock.now()-sent)
	k.fresh = answer.Epoch != k.epoch.Load()
	if k.fresh {
		k.epoch.Store(answer.Epoch)
		s.reconciler.newMaster = true
		s.locks.askAgain()
	}
	s.c.calls.SawRevision(answer.MembersRevision)
	s.c.metrics.Renewed(s.lease.remaining(), s.ttl)
	s.lease.extend(sent + held + milliseconds(answer.TTLMS, s.ttl))
	for i := range answer.Events {
		if e := &answer.Events[i]; e.Seq <= lockapi.MaxToken { // a higher one cannot be acknowledged
			news = news || e.Seq > k.ack
			k.ack = max(k.ack, e.Seq)
			k.notice(e)
		}
	}
	return news
}

// notice processes one event.
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

// milliseconds converts n to a duration, clamped to 0 and most.
func milliseconds(n int64, most time.Duration) time.Duration {
	return time.Duration(min(max(n, 0), most.Milliseconds())) * time.Millisecond
}
