package rehearse

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Office is who was master, and for which epoch.
type Office struct {
	Master string `json:"master"`
	Epoch  uint64 `json:"epoch"`
}

// Seen is all that was seen. Times are from when the probing began.
type Seen struct {
	From, To      Office
	Change, End   time.Duration
	Office        time.Duration // when that of To was seen first
	Last          Office        // at the end; no master where none holds its lease
	Reads, Writes []Attempt
	Gone          map[string]string // why sessions ended that are not there any more, by id, as far as the cell tells
	Ends          map[string]time.Duration
	Before, After Sighting
	Own           Own
	Notes         []string // what could not be seen
}

// Own is what became of the rehearsal's own session.
type Own struct {
	Jeopardy bool    `json:"session_in_jeopardy"` // its SDK could not rely on it for a while
	Expired  bool    `json:"session_expired"`
	LockKept bool    `json:"lock_kept"`
	Waiters  int     `json:"waiters"`
	InOrder  int     `json:"waiters_in_order"`
	Calls    int     `json:"sdk_calls"`
	Failed   int     `json:"sdk_calls_failed"`
	Slowest  float64 `json:"sdk_slowest_call_ms"`
}

// Near is how near a session came to its end: what it had left when service was
// back, at least. Below 0 its owner could not rely on it for so long.
type Near struct {
	Session string `json:"session"`
	Name    string `json:"name"`
	TTLMS   int64  `json:"ttl_ms"`
	LeftMS  int64  `json:"left_ms"`
}

// Fates is what became of holds, or of waiters.
type Fates struct {
	Seen int `json:"seen"`
	Kept int `json:"kept"`
	// Granted are waiters that have got the lock.
	Granted int `json:"granted,omitempty"`
	// Given are those of sessions that live, which are there no more: given back,
	// or given up.
	Given int `json:"given_up"`
	// Lost went with their sessions.
	Lost int `json:"with_their_session"`
	// Overtaken are waiters behind more others than before, which must not be.
	Overtaken []string `json:"overtaken,omitempty"`
}

// Verdicts of a rehearsal.
const (
	Passed = "passed"
	Failed = "failed"
	Look   = "look"
)

// Report is what came of it.
type Report struct {
	Before  Office  `json:"before"`
	After   Office  `json:"after"`
	Reads   Service `json:"reads"`
	Writes  Service `json:"writes"`
	Own     Own     `json:"own"`
	Seen    int     `json:"sessions"`
	Nearest []Near  `json:"nearest"`
	// LeastShare and HalfShare are of what the sessions had left of their ttl when
	// service was back: the least, and that which half of them had.
	LeastShare float64  `json:"least_share_left"`
	HalfShare  float64  `json:"half_had_share_left"`
	Jeopardy   int      `json:"sessions_in_jeopardy"`
	Closed     int      `json:"sessions_closed"`
	Expired    []Near   `json:"sessions_expired,omitempty"`
	Holds      Fates    `json:"holds"`
	Waiters    Fates    `json:"waiters"`
	Verdict    string   `json:"verdict"`
	Why        []string `json:"why,omitempty"`

	// What it leaves: Left is why its own sessions could not be closed. Where it did
	// not come to its end, Changed says that the change was asked for.
	Left    error `json:"-"`
	Changed bool  `json:"-"`
}

// Evaluate says what came of it.
func Evaluate(s *Seen) Report {
	r := Report{Before: s.From, After: s.To, Own: s.Own, Verdict: Passed}
	office := s.Office
	if s.To.Master == "" {
		office = s.End
	}
	r.Reads, r.Writes = ServiceOf(s.Reads, s.Change, office, s.End), ServiceOf(s.Writes, s.Change, office, s.End)
	r.sessions(s)
	r.fates(s)
	r.evaluate(s)
	return r
}

// sessions measures all that were there before by when writes were served again.
func (r *Report) sessions(s *Seen) {
	r.Seen = len(s.Before.Sessions)
	var all []Near
	for id, one := range s.Before.Sessions {
		n := Near{id, one.Name, one.TTLMS, (s.Ends[id] - r.Writes.Back).Milliseconds()}
		_, lives := s.After.Sessions[id]
		switch {
		case lives && n.LeftMS < 0:
			r.Jeopardy++
		case lives:
		case s.Gone[id] == lockapi.ReasonSessionExpired, s.Gone[id] == "" && s.After.Ended >= s.Ends[id]+ttlOf(one):
			// One whose owner closed it leaves no trace where it held nothing. A new
			// master gives each a whole ttl: before that is over none has expired.
			r.Expired = append(r.Expired, n)
			continue
		default:
			r.Closed++
			continue
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Near) int { return cmp.Or(cmp.Compare(a.LeftMS, b.LeftMS), cmp.Compare(a.Session, b.Session)) })
	slices.SortFunc(r.Expired, func(a, b Near) int { return cmp.Compare(a.Session, b.Session) })
	r.Nearest = all[:min(listed, len(all))]
	var shares []float64
	for _, n := range all {
		shares = append(shares, float64(n.LeftMS)/float64(max(n.TTLMS, 1)))
	}
	if slices.Sort(shares); len(shares) > 0 {
		r.LeastShare, r.HalfShare = shares[0], shares[len(shares)/2]
	}
}

type place struct{ session, path, handle string }

// fates compares holds and waiters. No waiter may be behind more others than before.
func (r *Report) fates(s *Seen) {
	token, position := map[place]uint64{}, map[place]int{}
	for id, one := range s.After.Sessions {
		for _, h := range one.Holds {
			token[place{id, h.Path, h.Handle}] = h.Token
		}
		for _, w := range one.Waits {
			position[place{id, w.Path, w.Handle}] = w.Position
		}
	}
	for id, one := range s.Before.Sessions {
		_, lives := s.After.Sessions[id]
		gone := func(f *Fates) *int {
			if lives {
				return &f.Given
			}
			return &f.Lost
		}
		for _, h := range one.Holds {
			r.Holds.Seen++
			if token[place{id, h.Path, h.Handle}] == h.Token {
				r.Holds.Kept++
			} else {
				*gone(&r.Holds)++
			}
		}
		for _, w := range one.Waits {
			r.Waiters.Seen++
			p := place{id, w.Path, w.Handle}
			switch at, waits := position[p]; {
			case waits && at > w.Position:
				r.Waiters.Overtaken = append(r.Waiters.Overtaken, fmt.Sprintf("%s in the queue of %s: %d, and %d before", cmp.Or(one.Name, id), w.Path, at, w.Position))
			case waits:
				r.Waiters.Kept++
			case token[p] != 0:
				r.Waiters.Granted++
			default:
				*gone(&r.Waiters)++
			}
		}
	}
	slices.Sort(r.Waiters.Overtaken)
}

// evaluate says whether all is as it should be.
func (r *Report) evaluate(s *Seen) {
	fail := func(format string, args ...any) {
		r.Verdict, r.Why = Failed, append(r.Why, fmt.Sprintf(format, args...))
	}
	look := func(format string, args ...any) {
		if r.Verdict == Passed {
			r.Verdict = Look
		}
		r.Why = append(r.Why, fmt.Sprintf(format, args...))
	}
	switch {
	case s.To.Master == "":
		fail("no master took office")
	case s.To.Master == s.From.Master && s.To.Epoch == s.From.Epoch:
		fail("%s is master as before, in the same epoch", s.From.Master)
	case s.To.Master == s.From.Master:
		look("%s is master again, in a new epoch", s.From.Master)
	}
	switch {
	case s.To.Master == "":
	case s.Last.Master == "":
		fail("%s took office, and at the end no master holds its lease", s.To.Master)
	case s.Last.Epoch > s.To.Epoch:
		look("%s lost its office again, and not by the rehearsal: at the end %s is master in epoch %d", s.To.Master, s.Last.Master, s.Last.Epoch)
	}
	if len(r.Expired) > 0 {
		fail("%s expired", format.Plural(len(r.Expired), "session"))
	}
	if len(r.Waiters.Overtaken) > 0 {
		fail("%s lost its place", format.Plural(len(r.Waiters.Overtaken), "waiter"))
	}
	switch o := s.Own; {
	case o.Expired:
		fail("the rehearsal's own session expired")
	case !o.LockKept:
		fail("the rehearsal's own lock was lost")
	case o.InOrder < o.Waiters:
		fail("of the rehearsal's own %s %d kept their places", format.Plural(o.Waiters, "waiter"), o.InOrder)
	case o.Jeopardy:
		look("the rehearsal's own session was in jeopardy")
	}
	if r.Jeopardy > 0 {
		look("%s may have been in jeopardy: what they held could not be relied upon until service was back", format.Plural(r.Jeopardy, "session"))
	}
	for _, n := range s.Notes {
		look("%s", n)
	}
}
