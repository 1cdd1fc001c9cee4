package simcell

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// These checks cover the opening of offices and the end of sessions.

// opens is called when a batch is handed to Raft. A machine that proposes to
// open an office has waited. If the office opens, every earlier lease must have
// ended by now, although the new one has not begun.
func (o *oracle) opens(m *machine, b state.Batch) {
	op := opening(b)
	if op == nil || o.looking {
		return
	}
	o.w.stats.check("opening")
	o.looking = true
	defer func() { o.looking = false }()
	for _, other := range o.w.machines {
		if p := other.process; other != m && p != nil && p.master != nil && p.master.Lease().Held {
			o.early[op.Term] = other.id
		}
	}
}

// lateEnd is how much later than required a session may end. It is far more
// than the contract's second, since goroutines stall here and disks are slow.
const lateEnd = 15 * time.Second

// reviewEvery is the interval of that check.
const reviewEvery = time.Second

// answered records an answer to a client that extends a session: to an opening
// or a keepalive.
func (o *oracle) answered(q *http.Request, out *httptest.ResponseRecorder) {
	if q.URL.Path == lockapi.RouteKeepalives && out.Code < 300 {
		var all lockapi.Keepalives
		if json.Unmarshal(out.Body.Bytes(), &all) == nil {
			for _, s := range all.Sessions {
				if s.Keepalive != nil {
					o.signs[s.ID] = o.w.now()
				}
			}
		}
		return
	}
	if _, id, renews := strings.Cut(q.URL.Path, "/v1/session/renew/"); renews && out.Code == http.StatusOK {
		o.signs[id] = o.w.now()
		return
	}
	rest, sessions := strings.CutPrefix(q.URL.Path, lockapi.RouteSessions)
	if q.Method != http.MethodPost || !sessions || out.Code >= 300 {
		return
	}
	if id, keepalive := strings.CutSuffix(rest, "/keepalive"); keepalive {
		o.signs[strings.TrimPrefix(id, "/")] = o.w.now()
		return
	}
	var opened lockapi.Session
	if json.Unmarshal(out.Body.Bytes(), &opened) == nil {
		o.signs[opened.ID] = o.w.now()
	}
}

// overdue finds sessions without keepalive that do not end. The deadline counts
// from the last answer. If the master had no lease since, it counts from its
// next lease.
func (o *oracle) overdue() {
	now := o.w.now()
	if o.master == nil || now < o.reviewed+reviewEvery {
		return
	}
	o.reviewed = now
	o.linger()
	o.w.stats.check("review of sessions")
	s := o.latest()
	for v := range s.Sessions("") {
		span := time.Duration(float64(v.TTLMS) * float64(time.Millisecond) * (1 + drift) / (1 - drift) / (1 - drift))
		if late := now - max(o.signs[v.ID], o.steady) - span; late > lateEnd {
			o.w.fail("session %s does not end; it was due %v ago, and %s is in office", v.ID, late, o.master.m.id)
			return
		}
	}
}

// opening returns the operation of a batch that opens an office, or nil.
func opening(b state.Batch) *state.OpenOffice {
	if len(b.Commands) != 1 {
		return nil
	}
	op, _ := b.Commands[0].Operation.(*state.OpenOffice)
	return op
}
