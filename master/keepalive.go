package master

import (
	"context"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Keepalive extends a session. It answers after req.WaitMS, or sooner when
// there is news, or when three quarters of the session's ttl have gone since it
// was last extended: then the caller has to be quick. A session past due is not
// revived; the call waits for its end and answers session_not_found.
func (m *Master) Keepalive(ctx context.Context, id string, req lockapi.KeepaliveRequest) (lockapi.Keepalive, error) {
	o, err := m.admit()
	if err != nil {
		return lockapi.Keepalive{}, err
	}
	k := keepalive{
		office: o, began: o.opts.Clock(), ack: req.Ack,
		wait: time.Duration(req.WaitMS) * time.Millisecond, news: make(chan struct{}, 1),
	}
	return k.run(ctx, id)
}

// keepalive is one call under way.
type keepalive struct {
	*office
	began time.Duration
	wait  time.Duration
	ack   uint64
	news  chan struct{}
}

func (k *keepalive) run(ctx context.Context, id string) (lockapi.Keepalive, error) {
	s, err := k.join(id)
	if err != nil {
		return lockapi.Keepalive{}, err
	}
	defer k.leave(s)
	answerBy := k.answerBy(s)
	t := stoppedTimer()
	defer t.Stop()
	for {
		reply, again, err := k.step(s, answerBy)
		if again == 0 {
			return reply, err
		}
		t.Reset(again)
		select {
		case <-t.C:
		case <-k.news:
		case <-k.done:
			return lockapi.Keepalive{}, errNoMaster("mastership was lost while the call waited; send it again")
		case <-ctx.Done():
			return lockapi.Keepalive{}, errNoMaster("the caller has gone")
		}
	}
}

// join finds the session and lets the call hear of its news.
func (k *keepalive) join(id string) (*session, error) {
	k.mu.Lock()
	s := k.sessions[id]
	if s == nil {
		// The state may be ahead of what the office has been told of it.
		if v, ok := k.log.State().Session(id); ok {
			k.addSession(v, k.opts.Clock())
			s = k.sessions[id]
		}
	}
	if s != nil {
		s.acknowledge(k.ack)
		if s.waiting == nil {
			s.waiting = map[chan struct{}]struct{}{}
		}
		s.waiting[k.news] = struct{}{}
	}
	k.mu.Unlock()
	if s == nil {
		return nil, k.gone(id)
	}
	return s, nil
}

func (k *keepalive) leave(s *session) {
	k.mu.Lock()
	delete(s.waiting, k.news)
	k.mu.Unlock()
}

// A master with many sessions answers the calls that wait for long together, at most a
// beat later than they asked for: it would else wake up for each of them, and for each
// of the requests that follow, which costs more than to answer them.
const (
	beat         = 200 * time.Millisecond
	longWait     = 20 * beat
	manySessions = 1000
)

// answerBy is the instant at which the call is answered at the latest.
func (k *keepalive) answerBy(s *session) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked, limit := k.began+k.wait, s.base+s.ttl*3/4
	if len(k.sessions) >= manySessions && min(asked, limit)-k.began > longWait {
		asked, limit = (asked + beat - 1).Truncate(beat), limit.Truncate(beat)
	}
	return min(asked, limit)
}

// step answers the call if its time has come; otherwise it says how long the
// call may wait before the next look.
func (k *keepalive) step(s *session, answerBy time.Duration) (reply lockapi.Keepalive, again time.Duration, err error) {
	k.mu.Lock()
	now := k.opts.Clock() // before the lease is checked
	switch {
	case s.ended:
		k.mu.Unlock()
		return reply, 0, k.gone(s.id)
	case s.expiring || now >= k.deadline(s):
		k.mu.Unlock()
		return reply, lapseRecheck, nil // its end has been, or is about to be, proposed
	case len(s.news) == 0 && now < answerBy:
		k.mu.Unlock()
		return reply, answerBy - now, nil
	}
	if !k.lease.Valid(k.opts.Clock()) {
		k.mu.Unlock()
		return reply, lapseRecheck, nil // nothing is promised; try again when it is regained
	}
	if now > s.base {
		s.base, s.lapsed = now, k.lease.Lapsed()
	}
	reply = lockapi.Keepalive{
		TTLMS:  s.ttl.Milliseconds(),
		HeldMS: k.opts.Drift.Held(now - k.began).Milliseconds(),
		Epoch:  k.epoch,
		Events: s.show(),
	}
	k.mu.Unlock()
	return reply, 0, nil
}

// gone is the answer where a session is not to be found. To say so is a read,
// so it needs the lease.
func (k *keepalive) gone(id string) error {
	if !k.lease.Valid(k.opts.Clock()) {
		return errNoMaster("the master lease lapsed during the call")
	}
	return errNoSession(id)
}

func errNoSession(id string) *lockapi.Error {
	return lockapi.Errorf(lockapi.CodeSessionNotFound, "session %q never was, was closed, or has expired; open a new one", lockapi.Clip(id))
}
