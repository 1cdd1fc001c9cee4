package client

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/stoutlock/stout/lockapi"
)

// wanted is what a call asks for, and its answer must be about.
type wanted struct {
	path    string
	session string
	handle  string
	mode    lockapi.Mode
	queue   bool   // a position in the queue is an answer as well
	above   uint64 // tokens up to this one were granted before the call
	ttlMS   int64
	epoch   uint64 // answers of earlier ones come from masters of the past
	master  string
	// Of files: the revision of a linearizable answer is at least since, and
	// that of a change above it.
	since      uint64
	after      string // a list begins behind it
	content    []byte // that is written
	created    bool   // there is none before
	current    bool   // a refusal tells what is there, with its content
	sequential bool   // path is what the name begins with
}

// high knows the highest number of a series that the client has seen of its
// cell: what is made later has a higher one.
type high struct{ n atomic.Uint64 }

func (h *high) highest() uint64 { return h.n.Load() }

func (h *high) note(n uint64) {
	for known := h.n.Load(); n > known && !h.n.CompareAndSwap(known, n); known = h.n.Load() {
	}
}

// The functions below say what is wrong with a successful answer to a call, or
// "". What a replica says is not believed where it is about something else than
// was asked, cannot be, or would have the session count on more than it asked
// for: a proxy may mix up answers, and a program may answer that is no replica
// of ours.

func verifyOpened(q *call) string {
	s := q.out.(*lockapi.Session)
	switch {
	case !isSessionID(s.ID):
		return fmt.Sprintf("a session with the id %q", lockapi.Clip(s.ID))
	case s.TTLMS != q.want.ttlMS:
		return fmt.Sprintf("a session with a ttl of %d ms; asked for was one of %d ms", s.TTLMS, q.want.ttlMS)
	}
	return wrongEpoch(s.Epoch, 1)
}

// isSessionID reports whether an id can stand in a URL's path, and in a log.
func isSessionID(id string) bool {
	odd := func(c rune) bool { return c > unicode.MaxASCII || !unicode.IsGraphic(c) || c == '/' || c == ' ' }
	return id != "" && id != "." && id != ".." && len(id) <= 128 && !strings.ContainsFunc(id, odd)
}

func wrongEpoch(got, least uint64) string {
	switch {
	case got < least:
		return fmt.Sprintf("epoch %d; it was %d before, and only grows", got, least)
	case got > lockapi.MaxToken:
		return fmt.Sprintf("epoch %d, which is above %d", got, uint64(lockapi.MaxToken))
	}
	return ""
}

func verifyKeepalive(q *call) string {
	k := q.out.(*lockapi.Keepalive)
	if k.TTLMS <= 0 {
		return fmt.Sprintf("a lease of %d ms", k.TTLMS)
	}
	return wrongEpoch(k.Epoch, max(q.want.epoch, 1))
}

func verifyState(q *call) string {
	if s := q.out.(*lockapi.SessionState); s.ID != q.want.session {
		return fmt.Sprintf("the state of session %q", lockapi.Clip(s.ID))
	}
	return ""
}

func verifyGrant(q *call) string {
	g, want := q.out.(*lockapi.Grant), &q.want
	switch {
	case g.Path != want.path:
		return fmt.Sprintf("a grant for %q", lockapi.Clip(g.Path))
	case g.Session != want.session:
		return fmt.Sprintf("a grant for session %q", lockapi.Clip(g.Session))
	case g.Handle != want.handle:
		return fmt.Sprintf("a grant for handle %q; the handle was %q", lockapi.Clip(g.Handle), want.handle)
	case g.Mode != want.mode:
		return fmt.Sprintf("a grant with mode %q; asked for was %q", lockapi.Clip(string(g.Mode)), want.mode)
	case g.State == lockapi.StateQueued && want.queue:
		return ""
	case g.State != lockapi.StateHeld:
		return fmt.Sprintf("the state %q", lockapi.Clip(g.State))
	case g.Token == 0 || g.Token > lockapi.MaxToken:
		return fmt.Sprintf("token %d; it is within 1..%d", g.Token, uint64(lockapi.MaxToken))
	case g.Token <= want.above:
		return fmt.Sprintf("token %d, though %d was granted before; tokens only grow, so the state of the cell has gone back, or this is another cell", g.Token, want.above)
	case !describes(g.Sequencer, g):
		return fmt.Sprintf("sequencer %q with token %d", lockapi.Clip(g.Sequencer), g.Token)
	}
	return ""
}

// describes reports whether a sequencer is that of a grant.
func describes(sequencer string, g *lockapi.Grant) bool {
	var digits [20]byte
	number := strconv.AppendUint(digits[:0], g.Token, 10)
	rest, ok := strings.CutPrefix(sequencer, string(g.Mode))
	if !ok || len(rest) != 2+len(number)+len(g.Path) || rest[0] != ':' || rest[1+len(number)] != ':' {
		return false
	}
	return rest[1:1+len(number)] == string(number) && rest[2+len(number):] == g.Path
}

func verifyLock(q *call) string {
	l := q.out.(*lockapi.Lock)
	switch {
	case l.Path != q.want.path:
		return fmt.Sprintf("the state of %q", lockapi.Clip(l.Path))
	case l.State != lockapi.StateFree && l.State != lockapi.StateHeld && l.State != lockapi.StateDelayed:
		return fmt.Sprintf("the state %q", lockapi.Clip(l.State))
	}
	return ""
}

func verifyTransferred(q *call) string {
	got := q.out.(*lockapi.Transferred).Master
	if got == "" || q.want.master != "" && got != q.want.master {
		return fmt.Sprintf("that %q is master", lockapi.Clip(got))
	}
	return ""
}

// verify says what is wrong with a successful answer, before its content is
// looked at: with its status, or with its age.
func (q *call) verify(status int, stale bool) string {
	switch {
	case q.status != 0 && status != q.status:
		return strconv.Itoa(status) + " " + http.StatusText(status)
	case stale && !q.stale && !q.any:
		return "what may be out of date, which was not asked for"
	}
	return ""
}
