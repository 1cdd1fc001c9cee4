package client

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/lockapi"
)

// wanted is what the answer to a call must match.
type wanted struct {
	path    string
	session string
	handle  string
	mode    lockapi.Mode
	queue   bool     // a queue position is a valid answer, too
	with    []string // the other locks of a grant
	above   uint64   // tokens up to this one were granted before the call
	ttlMS   int64
	epoch   uint64 // an answer with an earlier one comes from a former master
	// The revision in a linearizable answer about files is at least since, and a
	// change's is above it.
	since      uint64
	after      string // a list begins after it
	content    []byte // of the write
	created    bool   // the file did not exist
	current    bool   // a refusal has the present file with its content
	sequential bool   // path is the prefix of the name
}

// high is the highest number of a series that the client has seen of its cell;
// later numbers are higher.
type high struct{ n atomic.Uint64 }

func (h *high) highest() uint64 { return h.n.Load() }

func (h *high) note(n uint64) {
	for known := h.n.Load(); n > known && !h.n.CompareAndSwap(known, n); known = h.n.Load() {
	}
}

// The functions below describe what is wrong with a successful answer to a
// call, or return "". They refuse an answer that does not match the request, is
// impossible, or would give the session a longer lease than requested. A proxy
// may mix up answers, and a program may answer that is not a replica of this
// cell.

func verifyOpened(q *call) string {
	s := q.out.(*lockapi.Session)
	switch {
	case !bridge.IsID(s.ID):
		return fmt.Sprintf("a session with the id %q", lockapi.Clip(s.ID))
	case s.TTLMS != q.want.ttlMS:
		return fmt.Sprintf("a session with a ttl of %d ms; the call requested %d ms", s.TTLMS, q.want.ttlMS)
	}
	return wrongEpoch(s.Epoch, 1)
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
	return wrongLease(q.out.(*lockapi.Keepalive), q.want.epoch)
}

// wrongLease describes what is wrong with a lease, given the epoch of the last
// one, or returns "".
func wrongLease(k *lockapi.Keepalive, epoch uint64) string {
	if k.TTLMS <= 0 {
		return fmt.Sprintf("a lease of %d ms", k.TTLMS)
	}
	return wrongEpoch(k.Epoch, max(epoch, 1))
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
		return fmt.Sprintf("a grant with mode %q; the call requested %q", lockapi.Clip(string(g.Mode)), want.mode)
	case g.State == lockapi.StateQueued && want.queue:
		return ""
	case g.State != lockapi.StateHeld:
		return fmt.Sprintf("the state %q", lockapi.Clip(g.State))
	case len(g.With) != len(want.with):
		return fmt.Sprintf("grants of %d locks; the call requested %d", 1+len(g.With), 1+len(want.with))
	}
	wrong := want.wrongToken(g.Mode, g.Path, g.Token, g.Sequencer)
	for i := range g.With {
		if part := &g.With[i]; part.Path != want.with[i] {
			return fmt.Sprintf("a grant for %q", lockapi.Clip(part.Path))
		} else if wrong == "" {
			wrong = want.wrongToken(g.Mode, part.Path, part.Token, part.Sequencer)
		}
	}
	return wrong
}

// wrongToken describes what is wrong with the token of a grant, or returns "".
func (want *wanted) wrongToken(mode lockapi.Mode, path string, token uint64, sequencer string) string {
	switch {
	case token == 0 || token > lockapi.MaxToken:
		return fmt.Sprintf("token %d; it is within 1..%d", token, uint64(lockapi.MaxToken))
	case token <= want.above:
		return fmt.Sprintf("token %d, though %d was granted before; tokens only grow, so the state of the cell has gone back, or this is another cell", token, want.above)
	case !describes(sequencer, mode, path, token):
		return fmt.Sprintf("sequencer %q with token %d", lockapi.Clip(sequencer), token)
	}
	return ""
}

// describes reports whether a sequencer matches a grant.
func describes(sequencer string, mode lockapi.Mode, path string, token uint64) bool {
	var digits [20]byte
	number := strconv.AppendUint(digits[:0], token, 10)
	rest, ok := strings.CutPrefix(sequencer, string(mode))
	if !ok || len(rest) != 2+len(number)+len(path) || rest[0] != ':' || rest[1+len(number)] != ':' {
		return false
	}
	return rest[1:1+len(number)] == string(number) && rest[2+len(number):] == path
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

// verify describes what is wrong with the status or the age of a successful
// answer, before its content is read.
func (q *call) verify(status int, stale bool) string {
	switch {
	case q.status != 0 && status != q.status:
		return strconv.Itoa(status) + " " + http.StatusText(status)
	case stale && !q.stale && !q.any:
		return "a possibly stale answer, which the call does not allow"
	}
	return ""
}
