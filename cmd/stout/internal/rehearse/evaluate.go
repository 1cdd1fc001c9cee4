package rehearse

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Office is a master and its epoch.
type Office struct {
	Master string `json:"master"`
	Epoch  uint64 `json:"epoch"`
}

// Seen has all observations. Times count from the start of probing.
type Seen struct {
	From, To      Office
	Change, End   time.Duration
	Office        time.Duration // when To was first seen in office
	Last          Office        // at the end; empty without a master that holds its lease
	Reads, Writes []Attempt
	Gone          map[string]string // by id, why sessions ended, as far as known
	Ends          map[string]time.Duration
	Before, After Listing
	Own           Own
	Notes         []string // failed observations
}

// Own is the result for the rehearsal's own sessions.
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

// Near is how near a session came to its end: the least time left when service
// was back. A negative time means that its owner could not rely on it for that
// long.
type Near struct {
	Session string `json:"session"`
	Name    string `json:"name"`
	TTLMS   int64  `json:"ttl_ms"`
	LeftMS  int64  `json:"left_ms"`
}

// Outcomes counts what became of holds, or of waiters.
type Outcomes struct {
	Seen int `json:"seen"`
	Kept int `json:"kept"`
	// Granted counts waiters that got the lock.
	Granted int `json:"granted,omitempty"`
	// Given counts holds and waiters of living sessions that are gone: released
	// or given up.
	Given int `json:"given_up"`
	// Lost counts holds and waiters that ended with their sessions.
	Lost int `json:"with_their_session"`
	// Overtaken lists waiters behind more others than before, which must not
	// happen.
	Overtaken []string `json:"overtaken,omitempty"`
}

// Verdicts of a rehearsal.
const (
	Passed = "passed"
	Failed = "failed"
	Look   = "look"
)

// Report is the result.
type Report struct {
	Before  Office  `json:"before"`
	After   Office  `json:"after"`
	Reads   Service `json:"reads"`
	Writes  Service `json:"writes"`
	Own     Own     `json:"own"`
	Seen    int     `json:"sessions"`
	Nearest []Near  `json:"nearest"`
	// LeastShare and HalfShare describe the share of the ttl that sessions had
	// left when service was back: the least, and the median.
	LeastShare float64  `json:"least_share_left"`
	HalfShare  float64  `json:"half_had_share_left"`
	Jeopardy   int      `json:"sessions_in_jeopardy"`
	Closed     int      `json:"sessions_closed"`
	Expired    []Near   `json:"sessions_expired,omitempty"`
	Holds      Outcomes `json:"holds"`
	Waiters    Outcomes `json:"waiters"`
	Verdict    string   `json:"verdict"`
	Why        []string `json:"why,omitempty"`

	// Left is why its own sessions could not be closed. In an unfinished
	// rehearsal, Changed reports that the change was requested.
	Left    error `json:"-"`
	Changed bool  `json:"-"`
}

// Evaluate returns the result.
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

// sessions measures all earlier sessions at the time when writes worked again.
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
			// A session without holds that its owner closed leaves no trace. A
			// new master gives each session a whole ttl, and none expires
			// before that.
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

// fates compares holds and waiters. No waiter may be behind more others than
// before.
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
		gone := func(f *Outcomes) *int {
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
				r.Waiters.Overtaken = append(r.Waiters.Overtaken, fmt.Sprintf("%s in the queue of %s: position %d, formerly %d", cmp.Or(one.Name, id), w.Path, at, w.Position))
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
		fail("%s is still master, in the same epoch", s.From.Master)
	case s.To.Master == s.From.Master:
		look("%s is master again, in a new epoch", s.From.Master)
	}
	switch {
	case s.To.Master == "":
	case s.Last.Master == "":
		fail("%s took office, but at the end no master holds its lease", s.To.Master)
	case s.Last.Epoch > s.To.Epoch:
		look("%s lost its office again, without the rehearsal: at the end %s is master in epoch %d", s.To.Master, s.Last.Master, s.Last.Epoch)
	}
	if len(r.Expired) > 0 {
		fail("%s expired", format.Plural(len(r.Expired), "session"))
	}
	if len(r.Waiters.Overtaken) > 0 {
		fail("%s lost its queue position", format.Plural(len(r.Waiters.Overtaken), "waiter"))
	}
	switch o := s.Own; {
	case o.Expired:
		fail("the rehearsal's own session expired")
	case !o.LockKept:
		fail("the rehearsal's own lock was lost")
	case o.InOrder < o.Waiters:
		fail("of the rehearsal's own %s, %d kept their queue positions", format.Plural(o.Waiters, "waiter"), o.InOrder)
	case o.Jeopardy:
		look("the rehearsal's own session was in jeopardy")
	}
	if r.Jeopardy > 0 {
		look("%s may have been in jeopardy: their holds were unreliable until service was back", format.Plural(r.Jeopardy, "session"))
	}
	for _, n := range s.Notes {
		look("%s", n)
	}
}
