package master

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/state"
)

// sessions are the live sessions, with what the office knows of them beyond the
// state. The office's mutex guards them and their deadlines.
type sessions struct {
	opened    time.Duration // when the office opened
	drift     lease.Drift
	lease     *lease.Master
	deadlines *deadlines
	byID      map[string]*session
}

// session is what the office knows of a session: when it ends unless it is kept
// alive, and which events it has. id and ttl are constant.
type session struct {
	id  string
	ttl time.Duration

	base       time.Duration // the lease counts from here: an answer, the office's opening, or the creation
	lapsed     time.Duration // lease.Lapsed at base: lapses since then are added to the session
	expiring   bool          // its end has been proposed; nothing revives it
	ended      bool
	quiet      bool     // closed with CloseSession.Quiet: a shared keepalive does not answer for that
	deadline   deadline // no later than due
	events     sessionEvents
	keepalives []*keepalive // waiting, oldest first
}

// add begins a session's lease at now.
func (ss *sessions) add(v *state.Session, now time.Duration) {
	if ss.byID[v.ID] != nil {
		return // a keepalive right after the opening has added it
	}
	s := &session{id: v.ID, ttl: time.Duration(v.TTLMS) * time.Millisecond, base: now, lapsed: ss.lease.Lapsed()}
	ss.byID[v.ID] = s
	s.deadline = deadline{at: ss.due(s), of: s}
	ss.deadlines.add(&s.deadline)
}

// due returns when a session is past due: its ttl after base, plus the slack
// that covers clocks of different rates, plus any lapse of the master lease
// since.
func (ss *sessions) due(s *session) time.Duration {
	return s.base + ss.drift.SessionSpan(s.ttl) + ss.lease.Lapsed() - s.lapsed
}

// extend makes a session's lease count from now, if that is later.
func (ss *sessions) extend(s *session, now time.Duration) {
	if now > s.base {
		s.base, s.lapsed = now, ss.lease.Lapsed()
	}
}

// left returns the rest of a session's lease, without the slack.
func (ss *sessions) left(s *session, now time.Duration) time.Duration {
	return max(0, s.base+s.ttl+ss.lease.Lapsed()-s.lapsed-now)
}

// orphanGrace is how long a wait of an earlier office is kept for a caller that
// may repeat its call. A shorter ttl counts instead.
const orphanGrace = 5 * time.Second

// graceEnds returns when the inherited waits of a session are withdrawn unless
// a call asks about them.
func (ss *sessions) graceEnds(id string) time.Duration {
	grace := orphanGrace
	if s := ss.byID[id]; s != nil {
		grace = min(grace, s.ttl)
	}
	return ss.opened + grace
}

// inherit adds the events of earlier offices.
func (ss *sessions) inherit(s *state.State) {
	for h := range s.Holds() {
		if h.EventSeq != 0 {
			ss.byID[h.Session].events.inherit(sessionEvent{seq: h.EventSeq, hold: h})
		}
	}
	for v := range s.Sessions("") {
		for _, l := range v.Losses {
			ss.byID[v.ID].events.inherit(sessionEvent{seq: l.EventSeq, loss: l})
		}
	}
	for _, to := range ss.byID {
		to.events.sort()
	}
}

// notify makes a grant an event for its session.
func (ss *sessions) notify(h *state.Hold) {
	if s := ss.byID[h.Session]; s != nil && s.events.add(sessionEvent{seq: h.EventSeq, hold: h}) {
		s.wake()
	}
}

// expelled makes the end of a kept wait an event for its session.
func (ss *sessions) expelled(c state.Expelled) {
	if s := ss.byID[c.Wait.Session]; s != nil && c.Wait.Keep && s.events.add(sessionEvent{seq: c.EventSeq, wait: c.Wait}) {
		s.wake()
	}
}

// lost makes the loss of a hold an event for its session.
func (ss *sessions) lost(c state.HoldLost) {
	if s := ss.byID[c.Session]; s != nil && s.events.add(sessionEvent{seq: c.Loss.EventSeq, loss: c.Loss}) {
		s.wake()
	}
}

// released drops the event of a grant that has ended.
func (ss *sessions) released(h *state.Hold) {
	if s := ss.byID[h.Session]; s != nil && h.EventSeq != 0 {
		s.events.remove(h.EventSeq)
	}
}

// end forgets a session and wakes its waiting keepalives. It returns nil if the
// session is unknown.
func (ss *sessions) end(id string) *session {
	s := ss.byID[id]
	if s == nil {
		return nil
	}
	s.ended = true
	ss.deadlines.remove(&s.deadline)
	delete(ss.byID, id)
	for _, k := range s.keepalives {
		if k.shared == nil || !s.quiet {
			k.wake()
		}
	}
	return s
}

// wake makes all waiting keepalives check again.
func (ss *sessions) wake() {
	for _, s := range ss.byID {
		s.wake()
	}
}

// wake makes the waiting keepalives check again.
func (s *session) wake() {
	for _, k := range s.keepalives {
		k.wake()
	}
}

// due proposes the end of a session that was not kept alive. The proposal is
// right even if the lease ends before it is applied. The deadline passed while
// the lease ran, so the session could have been kept alive until then, and
// nothing has revived it since.
func (s *session) due(o *office, now time.Duration) {
	if s.ended {
		return
	}
	if due := o.sessions.due(s); due > now {
		s.deadline.at = due
		o.deadlines.add(&s.deadline)
		return
	}
	s.expiring = true
	op := &state.ExpireSession{Session: s.id}
	if o.log.State().RecordsEndings() {
		op.SilentMS = (now - s.base).Milliseconds()
	}
	go o.proposeEnd(nil, op, s.id, false)
}

// sessionEnded handles a session's end, and returns a log entry if it expired,
// else nil. o.mu is held.
func (o *office) sessionEnded(e state.SessionEnded) *zerolog.Event {
	s := o.sessions.end(e.Session.ID)
	if s == nil || !e.Expired {
		return nil
	}
	return o.logger.Info().Str("session", s.id).Str("name", e.Session.Name).
		Dur("ttl_ms", s.ttl).Dur("silent_ms", o.now()-s.base)
}

// proposeEnd proposes the end of a session once its turn has come, and checks the
// caller's rights again. It does so also if its caller has gone: its locks are
// needed. The caller is nil for a session that has expired.
func (o *office) proposeEnd(by *Caller, op state.Operation, session string, quiet bool) (state.Result, error) {
	files := upTo(mostEnding, o.log.State().Ephemeral(session))
	e, err := o.endings.wait(context.Background(), 1+o.quotas.Handles(session)+files, o.done)
	if err != nil {
		return nil, err
	}
	defer o.endings.finish(e)
	if by == nil { // the session has expired
		by = &Caller{}
	} else if err := o.authorize(by); err != nil {
		return nil, err
	}
	o.mu.Lock()
	if s := o.sessions.byID[session]; s != nil && quiet && !by.found().Others {
		s.quiet = true
	}
	o.mu.Unlock()
	return o.propose(by, op)
}
