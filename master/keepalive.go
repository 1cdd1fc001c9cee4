package master

import (
	"context"
	"slices"
	"time"

	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/rights"
)

// mostWaiting bounds the waiting keepalives of one session. One more ends the
// oldest. A client needs one or two; without a bound one session could occupy
// every connection.
const mostWaiting = 8

// KeepAlive extends a session. It answers after req.WaitMS, or earlier for one
// of three reasons: there is an event; three quarters of the session's ttl have
// passed since it was last extended, so that the caller must be quick; or
// mostWaiting later keepalives are waiting. A session past due is not revived:
// the call waits for its end and returns session_not_found.
func (m *Master) KeepAlive(ctx context.Context, by *Caller, req *lockapi.KeepAlive) (lockapi.Keepalive, error) {
	return serve(m, by, func(o *office) (lockapi.Keepalive, error) {
		k, s := by.Parking.pop()
		switch {
		case k == nil:
			k = newKeepalive(o)
			k.ack, k.wait = req.Ack, time.Duration(req.WaitMS)*time.Millisecond
		case k.o != o:
			return lockapi.Keepalive{}, errMoved()
		}
		if by.Principal != "" || by.Secret != nil || m.log.State().AccessOn {
			k.by = by
		}
		reply, err := k.run(ctx, req.Session, s, by.Parking)
		reply.MembersRevision = m.membersRevision()
		return reply, err
	})
}

type keepalive struct {
	o        *office
	began    time.Duration
	wait     time.Duration
	ack      uint64
	noEvents bool // the call is an OpenSession by key: its answer has no events
	shared   *int // room for events in the answer of a KeepAliveAll; nil for other calls
	wakeup   wait.Wakeup
	by       *Caller // checked again when rights change; nil without a principal

	// The following are guarded by o.mu.
	crowded bool     // the call was the oldest of too many
	quiet   bool     // the session was closed quietly: a shared call does not answer for that
	parking *Parking // where it waits; nil if it waits in run
}

// wake makes a waiting call check again. o.mu is held.
func (k *keepalive) wake() {
	k.wakeup.Wake()
	if k.parking != nil {
		k.parking.Wake()
	}
}

// newKeepalive returns a call that begins now and does not wait.
func newKeepalive(o *office) *keepalive {
	return &keepalive{o: o, began: o.now(), wakeup: wait.NewWakeup()}
}

// run makes the call, or parks it once. s is its session if it was parked
// before, else nil.
func (k *keepalive) run(ctx context.Context, id string, s *session, p *Parking) (_ lockapi.Keepalive, err error) {
	if s == nil {
		if s, err = k.join(id); err != nil {
			return lockapi.Keepalive{}, err
		}
	}
	defer func() {
		if err != ErrParked {
			k.leave(s)
		}
	}()
	answerBy := k.answerBy(s)
	t := stoppedTimer()
	defer t.Stop()
	for first := true; ; first = false {
		reply, again, err := k.step(s, answerBy)
		if again == 0 {
			return reply, err
		}
		if first { // a change of rights before the call waited did not wake it
			if err := k.reauthorize(id); err != nil {
				return lockapi.Keepalive{}, err
			}
		}
		if k.by != nil {
			again = k.by.within(k.o.log.State(), again)
		}
		if first && again >= leastParked && p.park(k, s, again) {
			return lockapi.Keepalive{}, ErrParked
		}
		t.Reset(again)
		select {
		case <-t.C:
			if k.by != nil && k.by.identify(k.o.log.State()) != nil {
				if err := k.reauthorize(id); err != nil {
					return lockapi.Keepalive{}, err
				}
			}
		case <-k.wakeup:
			if err := k.reauthorize(id); err != nil {
				return lockapi.Keepalive{}, err
			}
		case <-k.o.done:
			return lockapi.Keepalive{}, errMoved()
		case <-ctx.Done():
			return lockapi.Keepalive{}, errNoMaster("the caller has gone")
		}
	}
}

func (k *keepalive) reauthorize(session string) error {
	switch {
	case k.by != nil:
		return k.o.authorize(k.by)
	case !k.o.log.State().AccessOn:
		return nil
	}
	return k.o.authorize(&Caller{Ask: Ask{Right: NoCaller, Session: session}})
}

// join finds the session.
func (k *keepalive) join(id string) (*session, error) {
	k.o.mu.Lock()
	s := k.o.sessions.byID[id]
	if s == nil {
		// The state may be ahead of what the office has followed.
		if v, ok := k.o.log.State().Session(id); ok {
			k.o.sessions.add(v, k.o.now())
			s = k.o.sessions.byID[id]
		}
	}
	if s != nil {
		s.events.acknowledge(k.ack)
		if !k.noEvents {
			left := k.o.sessions.left(s, k.began)
			k.o.vitals.keptAlive.Observe(time.Duration(float64(left) / float64(s.ttl) * float64(time.Second)))
		}
	}
	k.o.mu.Unlock()
	if s == nil {
		return nil, rights.ErrNoSession(id)
	}
	return s, nil
}

// waits registers the call for the session's events. o.mu is held.
func (k *keepalive) waits(s *session) {
	if slices.Contains(s.keepalives, k) {
		return
	}
	if len(s.keepalives) == mostWaiting {
		oldest := s.keepalives[0]
		s.keepalives = slices.Delete(s.keepalives, 0, 1)
		oldest.crowded = true
		oldest.wake()
	}
	s.keepalives = append(s.keepalives, k)
}

func (k *keepalive) leave(s *session) {
	k.o.mu.Lock()
	s.keepalives = slices.DeleteFunc(s.keepalives, func(other *keepalive) bool { return other == k })
	k.o.mu.Unlock()
}

// A master with many sessions answers long waits in groups, at most one beat
// late. Otherwise it would wake up for each of them, and for each of the
// requests that follow, which costs more than the answers.
const (
	beat         = 200 * time.Millisecond
	longWait     = 20 * beat
	manySessions = 1000
)

// answerBy returns the latest instant at which the call is answered.
func (k *keepalive) answerBy(s *session) time.Duration {
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	asked, limit := k.began+k.wait, s.base+s.ttl*3/4
	if len(k.o.sessions.byID) >= manySessions && min(asked, limit)-k.began > longWait {
		asked, limit = (asked + beat - 1).Truncate(beat), limit.Truncate(beat)
	}
	return min(asked, limit)
}

// step answers the call if its time has come. Otherwise it returns how long the
// call may wait until the next step.
func (k *keepalive) step(s *session, answerBy time.Duration) (reply lockapi.Keepalive, again time.Duration, err error) {
	k.o.mu.Lock()
	defer k.o.mu.Unlock()
	now := k.o.now() // before the lease is checked
	switch {
	case s.ended:
		k.quiet = k.shared != nil && s.quiet
		return reply, 0, rights.ErrNoSession(s.id)
	case s.expiring || now >= k.o.sessions.due(s):
		return k.later(s, lapseRecheck) // its end has been, or is about to be, proposed
	case len(s.events) == 0 && now < answerBy && !k.crowded:
		return k.later(s, answerBy-now)
	}
	if !k.o.leaseValid() {
		return k.later(s, lapseRecheck) // nothing is promised; try again when it is regained
	}
	k.o.sessions.extend(s, now)
	reply = lockapi.Keepalive{
		TTLMS:  s.ttl.Milliseconds(),
		HeldMS: k.o.opts.Drift.Held(now - k.began).Milliseconds(),
		Epoch:  k.o.epoch,
	}
	if !k.noEvents {
		room, own := k.shared, lockapi.PageBytes
		if room == nil {
			room = &own
		}
		reply.Events = s.events.show(room)
	}
	return reply, 0, nil
}

// later makes the call wait. It refuses a crowded call that can't be answered
// now: without a lease, too, calls must not pile up. o.mu is held.
func (k *keepalive) later(s *session, again time.Duration) (lockapi.Keepalive, time.Duration, error) {
	if k.crowded {
		e := lockapi.TooMany("waiting-keepalives", mostWaiting, mostWaiting, "session %q has %d other keepalives waiting, and this one can't be answered now; send one at a time", s.id, mostWaiting)
		e.RetryAfter = 1
		return lockapi.Keepalive{}, 0, ownRefusal{e}
	}
	k.waits(s)
	return lockapi.Keepalive{}, again, nil
}

func errMoved() *lockapi.Error {
	return errNoMaster("mastership was lost while the call waited; send it again")
}
