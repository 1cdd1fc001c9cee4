package master

import (
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// session is what the office knows of a session beyond the state: when it ends
// unless it is kept alive, and what it has to be told. All fields but the
// constant ones are guarded by the office's mutex.
type session struct {
	id  string
	ttl time.Duration

	base     time.Duration // the lease counts from here: an answer, the opening, or the creation
	lapsed   time.Duration // what lease.Lapsed was at base: time that passed in a lapse is given back
	expiring bool          // its end has been proposed; nothing revives it
	ended    bool
	end      *matter       // on the agenda
	grants   []*state.Hold // not acknowledged, by EventSeq
	waiting  map[chan struct{}]struct{}
}

// addSession begins a session's lease at now. o.mu is held, or the office is
// not in use yet.
func (o *office) addSession(v *state.Session, now time.Duration) {
	if o.sessions[v.ID] != nil {
		return // a keepalive that came right behind its opening has begun it
	}
	s := &session{id: v.ID, ttl: time.Duration(v.TTLMS) * time.Millisecond, base: now, lapsed: o.lease.Lapsed()}
	o.sessions[v.ID] = s
	s.end = &matter{at: o.deadline(s), session: s}
	o.schedule(s.end)
}

// deadline is when the session is past due: its ttl, and the slack that covers
// clocks of different rates, after base. o.mu is held.
func (o *office) deadline(s *session) time.Duration {
	return s.base + o.opts.Drift.SessionSpan(s.ttl) + o.lease.Lapsed() - s.lapsed
}

// sessionDue proposes the end of a session that was not kept alive. o.mu is
// held; the lease was valid a moment ago, and if it is not any more when the
// proposal arrives, the state refuses it.
func (o *office) sessionDue(s *session, now time.Duration) {
	if s.ended {
		return
	}
	if due := o.deadline(s); due > now {
		s.end.at = due
		o.schedule(s.end)
		return
	}
	s.expiring = true
	go o.propose(state.Command{Kind: state.ExpireSession, Session: s.id})
}

// endSession tells a session's waiting keepalives of its end. o.mu is held.
func (o *office) endSession(e *state.Event) {
	s := o.sessions[e.Session.ID]
	if s == nil {
		return
	}
	s.ended = true
	o.strike(s.end)
	delete(o.sessions, s.id)
	s.nudge()
	if e.Expired {
		silent := o.opts.Clock() - s.base
		o.logger.Info().Str("session", s.id).Str("name", e.Session.Name).Dur("ttl_ms", s.ttl).Dur("silent_ms", silent).
			Msg("session expired: it was not kept alive")
	}
}

// tell notes a grant that the session has to hear of. o.mu is held, or the
// office is not in use yet.
func (s *session) tell(h *state.Hold) {
	if slices.ContainsFunc(s.grants, func(old *state.Hold) bool { return old.EventSeq == h.EventSeq }) {
		return
	}
	s.grants = append(s.grants, h)
	slices.SortFunc(s.grants, func(a, b *state.Hold) int {
		if a.EventSeq < b.EventSeq {
			return -1
		}
		return 1
	})
	s.nudge()
}

// forget drops the news with that number: the grant has ended. o.mu is held.
func (s *session) forget(seq uint64) {
	s.grants = slices.DeleteFunc(s.grants, func(h *state.Hold) bool { return h.EventSeq == seq })
}

// acknowledge drops the news up to seq. o.mu is held.
func (s *session) acknowledge(seq uint64) {
	s.grants = slices.DeleteFunc(s.grants, func(h *state.Hold) bool { return h.EventSeq <= seq })
}

// nudge wakes the session's waiting keepalives. o.mu is held.
func (s *session) nudge() {
	for c := range s.waiting {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// events is the news in the form of the wire. o.mu is held.
func (s *session) events() []lockapi.Event {
	out := make([]lockapi.Event, len(s.grants))
	for i, h := range s.grants {
		out[i] = lockapi.Event{Seq: h.EventSeq, Type: lockapi.EventLockGranted, Path: h.Path, Handle: h.Handle,
			Mode: mode(h.Mode), Token: h.Token, Sequencer: sequencer(h)}
	}
	return out
}
