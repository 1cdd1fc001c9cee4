package simcell

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// The oracle checks a session's reads against the log here.

// offer is a grant that was shown as one to claim.
type offer struct {
	who   string
	sent  time.Duration // when that call was sent
	until time.Duration // it must not be revoked before, unless its pair has called since
}

// sessionRead checks a read of a session. The session must have been so at some
// moment since the call began. A grant shown as the session's own must not be
// revoked. A grant to claim must not be revoked before the given time is over.
// That time counts from the sending, on the master's clock, which may be fast.
func (o *oracle) sessionRead(who string, sent time.Duration, floor uint64, got lockapi.SessionState) {
	o.checks("session read")
	want := locksShown(got)
	if !o.since(floor, func(s *state.State) bool { return locksOfSession(s, got.ID) == want }) {
		o.w.fail("%s read session %s with %q, which it never had since before the call (entry %d); now it has %q",
			who, got.ID, want, floor, locksOfSession(o.latest(), got.ID))
		return
	}
	for _, h := range got.Holds {
		p := pair{got.ID, h.Path, h.Handle}
		if h.UnclaimedMS == 0 {
			o.acquired(who, floor, p, h.Token)
			continue
		}
		o.w.stats.check("reported unclaimed grant")
		if h.UnclaimedMS == 1 {
			continue // the smallest value that can be shown; it gives no time
		}
		span := time.Duration(float64(h.UnclaimedMS) * float64(time.Millisecond) * (1 - 2*drift))
		o.offered[h.Token] = offer{who, sent, sent + span}
	}
}

// revoked checks that a revoked grant was never reported, nor offered for a
// time that is not over.
func (o *oracle) revoked(index uint64, h *state.Hold) {
	o.w.stats.check("revoked grant")
	g := o.tokens[h.Token]
	g.revoked = true
	o.tokens[h.Token] = g
	if who := o.known[h.Token]; who != "" {
		o.w.fail("entry %d: the grant with token %d of %s/%s at %s is revoked; %s had got it in an answer", index, h.Token, h.Session, h.Handle, h.Path, who)
	}
	shown, ok := o.offered[h.Token]
	p := pair{h.Session, h.Path, h.Handle}
	quiet := o.w.calling[p] == 0 && o.w.called[p] < shown.sent
	if left := shown.until - o.w.now(); ok && quiet && left > 0 {
		o.w.fail("entry %d: the grant with token %d of %s/%s at %s is revoked; by its answer %s may claim it for another %v",
			index, h.Token, h.Session, h.Handle, h.Path, shown.who, left)
	}
}

// locksShown describes the holds and waits of a session that was read.
func locksShown(s lockapi.SessionState) string {
	var all []string
	for _, h := range s.Holds {
		all = append(all, fmt.Sprintf("%s/%s with token %d", h.Path, h.Handle, h.Token))
	}
	for _, w := range s.Waits {
		all = append(all, fmt.Sprintf("a place at %s/%s", w.Path, w.Handle))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// locksOfSession describes the holds and waits of a session in a state.
func locksOfSession(s *state.State, session string) string {
	if _, lives := s.Session(session); !lives {
		return "no session"
	}
	var all []string
	for h, w := range s.HoldsAndWaits(session) {
		if h != nil {
			all = append(all, fmt.Sprintf("%s/%s with token %d", h.Path, h.Handle, h.Token))
		} else {
			all = append(all, fmt.Sprintf("a place at %s/%s", w.Path, w.Handle))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
