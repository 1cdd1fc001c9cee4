package simcell

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// What a session shows to those who read it is held against the log here.

// offer is a grant that was shown as one to be asked for again.
type offer struct {
	who   string
	sent  time.Duration // when that was asked
	until time.Duration // it is not taken back before, unless its pair has called since
}

// sessionRead: a client has read a session. It was so at some moment since the
// call began. A grant that it shows as the session's own is not taken back, and
// one that is to be asked for again not before the time is over. That is
// counted from the sending, on a clock of the master's that may be fast.
func (j *judge) sessionRead(who string, sent time.Duration, floor uint64, got lockapi.SessionState) {
	j.look()
	j.w.stats.check("session read")
	want := claimsShown(got)
	if !j.since(floor, func(s *state.State) bool { return claimsOf(s, got.ID) == want }) {
		j.w.fail("%s read session %s with %q, which it has not had since before the call (entry %d); now it has %q",
			who, got.ID, want, floor, claimsOf(j.latest(), got.ID))
		return
	}
	for _, h := range got.Holds {
		p := pair{got.ID, h.Path, h.Handle}
		if h.UnclaimedMS == 0 {
			j.acquired(who, floor, p, h.Token)
			continue
		}
		j.w.stats.check("told of an unclaimed grant")
		if h.UnclaimedMS == 1 {
			continue // the least that can be shown, and no time at all
		}
		span := time.Duration(float64(h.UnclaimedMS) * float64(time.Millisecond) * (1 - 2*drift))
		j.offered[h.Token] = offer{who, sent, sent + span}
	}
}

// takenBack: a grant has been taken back. Nobody was told of it, nor that it
// may be asked for yet.
func (j *judge) takenBack(index uint64, h *state.Hold) {
	j.w.stats.check("grant taken back")
	g := j.tokens[h.Token]
	g.taken = true
	j.tokens[h.Token] = g
	if who := j.known[h.Token]; who != "" {
		j.w.fail("entry %d: the grant with token %d of %s/%s at %s is taken back; %s had been told of it", index, h.Token, h.Session, h.Handle, h.Path, who)
	}
	o, ok := j.offered[h.Token]
	p := pair{h.Session, h.Path, h.Handle}
	quiet := j.w.calling[p] == 0 && j.w.called[p] < o.sent
	if left := o.until - j.w.now(); ok && quiet && left > 0 {
		j.w.fail("entry %d: the grant with token %d of %s/%s at %s is taken back; %s was told that it may be asked for another %v",
			index, h.Token, h.Session, h.Handle, h.Path, o.who, left)
	}
}

// claimsShown is what a session has, as it was read.
func claimsShown(s lockapi.SessionState) string {
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

// claimsOf is what a session has in a state.
func claimsOf(s *state.State, session string) string {
	if _, lives := s.Session(session); !lives {
		return "no session"
	}
	var all []string
	for h, w := range s.Claims(session) {
		if h != nil {
			all = append(all, fmt.Sprintf("%s/%s with token %d", h.Path, h.Handle, h.Token))
		} else {
			all = append(all, fmt.Sprintf("a place at %s/%s", w.Path, w.Handle))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
