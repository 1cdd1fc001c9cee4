package master

import (
	"cmp"
	"slices"
	"time"

	"github.com/rs/zerolog"

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
	end      *matter      // on the agenda
	use      amount       // what it takes of the quotas; its claims, and its own bytes
	news     []news       // not acknowledged, by number
	waiting  []*keepalive // oldest first
}

// news is a grant that the session has to hear of. It may become news after one
// with a higher number was shown and acknowledged: an acknowledgement counts
// only for what was shown.
type news struct {
	hold  *state.Hold
	shown bool
}

func (n news) compare(seq uint64) int { return cmp.Compare(n.hold.EventSeq, seq) }

// addSession begins a session's lease at now. o.mu is held, or the office is
// not in use yet.
func (o *office) addSession(v *state.Session, now time.Duration) {
	if o.sessions[v.ID] != nil {
		return // a keepalive that came right behind its opening has begun it
	}
	s := &session{id: v.ID, ttl: time.Duration(v.TTLMS) * time.Millisecond, base: now, lapsed: o.lease.Lapsed(),
		use: amount{bytes: amountOf(v).bytes}}
	o.sessions[v.ID] = s
	s.end = &matter{at: o.deadline(s), session: s}
	o.schedule(s.end)
}

// deadline is when the session is past due: its ttl, and the slack that covers
// clocks of different rates, after base. o.mu is held.
func (o *office) deadline(s *session) time.Duration {
	return s.base + o.opts.Drift.SessionSpan(s.ttl) + o.lease.Lapsed() - s.lapsed
}

// sessionDue proposes the end of a session that was not kept alive. It is right
// even where the lease ends before the proposal arrives: the deadline had passed
// while the lease ran, so the session could have been kept alive until then, and
// nothing has revived it since. o.mu is held.
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
	go o.proposeEnd(&state.ExpireSession{Session: s.id}, s.id)
}

// endSession tells a session's waiting keepalives of its end, and returns what
// there is to log of it, nil for nothing. o.mu is held.
func (o *office) endSession(e state.SessionEnded) *zerolog.Event {
	o.sessionEnded(e.Session)
	s := o.sessions[e.Session.ID]
	if s == nil {
		return nil
	}
	s.ended = true
	o.strike(s.end)
	delete(o.sessions, s.id)
	s.nudge()
	if !e.Expired {
		return nil
	}
	return o.logger.Info().Str("session", s.id).Str("name", e.Session.Name).
		Dur("ttl_ms", s.ttl).Dur("silent_ms", o.opts.Clock()-s.base)
}

// inherit takes over the grants of earlier offices, and the news of them. They may
// have done so, and the acknowledgement may be on its way: they count as shown.
// The office is not in use yet.
func (o *office) inherit(s *state.State) {
	for h := range s.Holds() {
		o.claimed(pairKey{h.Session, h.Path, h.Handle}, false)
		if h.EventSeq != 0 {
			to := o.sessions[h.Session]
			to.news = append(to.news, news{hold: h, shown: true})
		}
	}
	for _, to := range o.sessions {
		slices.SortFunc(to.news, func(a, b news) int { return a.compare(b.hold.EventSeq) })
	}
}

// tell notes a grant that the session has to hear of. o.mu is held.
func (s *session) tell(h *state.Hold) {
	i, known := slices.BinarySearchFunc(s.news, h.EventSeq, news.compare)
	if known {
		return
	}
	s.news = slices.Insert(s.news, i, news{hold: h})
	s.nudge()
}

// forget drops the news with that number: the grant has ended. o.mu is held.
func (s *session) forget(seq uint64) {
	s.news = slices.DeleteFunc(s.news, func(n news) bool { return n.hold.EventSeq == seq })
}

// acknowledge drops the news up to seq that was shown. o.mu is held.
func (s *session) acknowledge(seq uint64) {
	s.news = slices.DeleteFunc(s.news, func(n news) bool { return n.shown && n.hold.EventSeq <= seq })
}

// nudge wakes the session's waiting keepalives. o.mu is held.
func (s *session) nudge() {
	for _, k := range s.waiting {
		k.nudge()
	}
}

// show is the news in the form of the wire, to be put into an answer. o.mu is
// held.
func (s *session) show() []lockapi.Event {
	out := make([]lockapi.Event, len(s.news))
	for i := range s.news {
		s.news[i].shown = true
		h := s.news[i].hold
		out[i] = lockapi.Event{Seq: h.EventSeq, Type: lockapi.EventLockGranted, Path: h.Path, Handle: h.Handle,
			Mode: mode(h.Mode), Token: h.Token, Sequencer: sequencer(h)}
	}
	return out
}
