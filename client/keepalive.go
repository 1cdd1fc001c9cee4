package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// longPoll bounds how long one call waits at the server, so that connections do
// not idle for longer than the boxes between here and there tolerate.
const longPoll = 30 * time.Second

// run keeps the session alive until it is over.
//
// While all goes well one call is always waiting at the master, which answers
// when a third of the lease is left. After a failure the next replica is asked
// to answer at once, with a short time-out, until one does: the third that is
// left is enough for several such attempts. The sessions of a client make them
// in turns.
func (s *Session) run(ctx context.Context) {
	defer close(s.stopped)
	defer s.stop()
	defer s.c.turns.count(-1)
	var pause backoff
	for failures := 0; ctx.Err() == nil; {
		began := s.c.now()
		news, err := s.keepalive(ctx, failures)
		switch {
		case ctx.Err() != nil || errors.Is(err, errCut):
		case err == nil:
			s.review(ctx)
			// Whoever answers too soon is not asked in a loop. The answer that
			// ends failures was asked for at once, and the next one is not: were
			// there a pause, the connections of a herd would lie idle together,
			// in greater numbers than are kept.
			switch {
			case news:
				sleep(ctx, began+firstPause-s.c.now())
			case failures == 0:
				sleep(ctx, began+s.ttl/20-s.c.now())
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

// keepalive makes one attempt and takes its answer in. It reports whether the
// answer brought news.
func (s *Session) keepalive(ctx context.Context, failures int) (bool, error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	wait, ack, epoch := s.beginPoll(failures, cut)
	var answer lockapi.Keepalive
	q := call{
		method: http.MethodPost, path: lockapi.RouteSessions + "/" + s.id + "/keepalive",
		body: encode(lockapi.KeepaliveRequest{WaitMS: wait.Milliseconds(), Ack: ack}),
		wait: wait, late: s.answerTime(wait, failures), out: &answer,
		check: verifyKeepalive, want: wanted{epoch: epoch},
	}
	if wait == 0 {
		if !s.c.turns.take(ctx) {
			return false, errCut
		}
		defer s.c.turns.give()
	}
	for hops := 0; ; hops++ {
		r := s.c.targets.pick()
		sent := s.c.now()
		err := s.c.attempt(ctx, r, &q)
		if err == nil {
			return s.renewed(sent, &answer), nil
		}
		if ctx.Err() != nil {
			return false, errCut
		}
		if next, _ := s.c.judge(ctx, r, &q, err); next != redirect || hops == mostHops {
			return false, err
		}
	}
}

// beginPoll says how long the next call shall wait at the server: until a third
// of the lease is left, or not at all after a failure or when there is
// something to look after.
func (s *Session) beginPoll(failures int, cut context.CancelFunc) (wait time.Duration, ack, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	s.cutPoll = cut
	if failures == 0 {
		wait = min(max(s.remainingLocked()-s.ttl/3, 0), longPoll)
	}
	if s.overdue {
		wait = 0
	}
	s.longPoll = wait > 0
	return wait.Truncate(time.Millisecond), s.ack, s.epoch
}

// answerTime is how long the answer may be late before the replica counts as
// out of reach. It leaves time for other replicas before the lease ends, and
// grows with the failures, lest a slow network keep every answer from arriving.
func (s *Session) answerTime(wait time.Duration, failures int) time.Duration {
	if wait > 0 {
		return min(max(s.ttl/8, 100*time.Millisecond), 2*time.Second)
	}
	d := min(max(s.ttl/12, 200*time.Millisecond), time.Second)
	return min(d<<min(failures/len(s.c.targets.configured), 4), 4*time.Second)
}

// renewed takes a keepalive's answer in, and reports whether there are events in
// it that are new. The lease runs ttl from the moment of the answer, which cannot
// be seen from here; sending + held is never later. Neither is held for longer than
// the call took, nor ttl longer than the session's own, whatever the answer says.
func (s *Session) renewed(sent time.Duration, answer *lockapi.Keepalive) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := milliseconds(answer.HeldMS, s.c.now()-sent)
	if answer.Epoch != s.epoch {
		s.epoch, s.suspect = answer.Epoch, true
		s.askAgain()
	}
	s.extend(sent + held + milliseconds(answer.TTLMS, s.ttl))
	for i := range answer.Events {
		if e := &answer.Events[i]; e.Seq <= lockapi.MaxToken { // more cannot be acknowledged
			news = news || e.Seq > s.ack
			s.ack = max(s.ack, e.Seq)
			s.notice(e)
		}
	}
	return news
}

// milliseconds is so many of them, within 0 and most.
func milliseconds(n int64, most time.Duration) time.Duration {
	return time.Duration(min(max(n, 0), most.Milliseconds())) * time.Millisecond
}

// lateAnswer is how long a waiting call may take to tell of a grant itself,
// after the event that told of it has come.
const lateAnswer = 200 * time.Millisecond

// notice takes an event in. It is a hint only: that a lock is granted is believed
// of the answer to the call that asks for it. s.mu is held.
func (s *Session) notice(e *lockapi.Event) {
	if e.Type != lockapi.EventLockGranted || !strings.HasPrefix(e.Handle, s.prefix) {
		return
	}
	cl, known := s.claims[e.Handle]
	switch {
	case !known:
		s.sweeps = max(s.sweeps, 1)
	case cl.path == e.Path && cl.phase == waiting && cl.cut != nil:
		// The call that waits for it is about to be answered, unless it waits
		// at a replica that is gone: then it is made again.
		time.AfterFunc(lateAnswer, cl.cut)
	}
}

// lostTime is for how long a request that got lost is expected to arrive late:
// much longer than a replica is silent before it is taken for dead.
const lostTime = 10 * time.Second

// expectStrays has the session looked through for grants that nobody here knows
// of, at each keepalive for a while. s.mu is held.
func (s *Session) expectStrays() {
	s.sweeps, s.sweepUntil = 2, s.c.now()+lostTime
}

// sweepLater is expectStrays, from now on. s.mu is held.
func (s *Session) sweepLater() {
	s.expectStrays()
	s.overdue = true
	if s.cutPoll != nil {
		s.cutPoll()
	}
}
