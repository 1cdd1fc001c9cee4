package client

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

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

func verifyOpened(q *call.Call) string {
	s := q.Out.(*lockapi.Session)
	switch {
	case !bridge.IsID(s.ID):
		return fmt.Sprintf("a session with the id %q", lockapi.Clip(s.ID))
	case s.TTLMS != q.Required.TtlMS:
		return fmt.Sprintf("a session with a ttl of %d ms; the call requested %d ms", s.TTLMS, q.Required.TtlMS)
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

func verifyKeepalive(q *call.Call) string {
	return wrongLease(q.Out.(*lockapi.Keepalive), q.Required.Epoch)
}

// wrongLease describes what is wrong with a lease, given the epoch of the last
// one, or returns "".
func wrongLease(k *lockapi.Keepalive, epoch uint64) string {
	if k.TTLMS <= 0 {
		return fmt.Sprintf("a lease of %d ms", k.TTLMS)
	}
	return wrongEpoch(k.Epoch, max(epoch, 1))
}

func verifyState(q *call.Call) string {
	if s := q.Out.(*lockapi.SessionState); s.ID != q.Required.Session {
		return fmt.Sprintf("the state of session %q", lockapi.Clip(s.ID))
	}
	return ""
}

func verifyGrant(q *call.Call) string {
	g, want := q.Out.(*lockapi.Grant), &q.Required
	switch {
	case g.Path != want.Path:
		return fmt.Sprintf("a grant for %q", lockapi.Clip(g.Path))
	case g.Session != want.Session:
		return fmt.Sprintf("a grant for session %q", lockapi.Clip(g.Session))
	case g.Handle != want.Handle:
		return fmt.Sprintf("a grant for handle %q; the handle was %q", lockapi.Clip(g.Handle), want.Handle)
	case g.Mode != want.Mode:
		return fmt.Sprintf("a grant with mode %q; the call requested %q", lockapi.Clip(string(g.Mode)), want.Mode)
	case g.State == lockapi.StateQueued && want.Queue:
		return ""
	case g.State != lockapi.StateHeld:
		return fmt.Sprintf("the state %q", lockapi.Clip(g.State))
	case len(g.With) != len(want.With):
		return fmt.Sprintf("grants of %d locks; the call requested %d", 1+len(g.With), 1+len(want.With))
	}
	wrong := wrongToken(want, g.Mode, g.Path, g.Token, g.Sequencer)
	for i := range g.With {
		if part := &g.With[i]; part.Path != want.With[i] {
			return fmt.Sprintf("a grant for %q", lockapi.Clip(part.Path))
		} else if wrong == "" {
			wrong = wrongToken(want, g.Mode, part.Path, part.Token, part.Sequencer)
		}
	}
	return wrong
}

// wrongToken describes what is wrong with the token of a grant, or returns "".
func wrongToken(want *call.Required, mode lockapi.Mode, path string, token uint64, sequencer string) string {
	switch {
	case token == 0 || token > lockapi.MaxToken:
		return fmt.Sprintf("token %d; it is within 1..%d", token, uint64(lockapi.MaxToken))
	case token <= want.LastToken:
		return fmt.Sprintf("token %d, though %d was granted before; tokens only grow, so the state of the cell has gone back, or this is another cell", token, want.LastToken)
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

func verifyLock(q *call.Call) string {
	l := q.Out.(*lockapi.Lock)
	switch {
	case l.Path != q.Required.Path:
		return fmt.Sprintf("the state of %q", lockapi.Clip(l.Path))
	case l.State != lockapi.StateFree && l.State != lockapi.StateHeld && l.State != lockapi.StateDelayed:
		return fmt.Sprintf("the state %q", lockapi.Clip(l.State))
	}
	return ""
}
