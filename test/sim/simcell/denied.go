package simcell

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// A release that arrives while an acquire of its pair is in the master's log
// must follow it there. An answer from memory that there is nothing to release
// would leave a hold that its caller considers released.

// denial is an acquire in a leader's log that a release got a negative answer
// before.
type denial struct {
	entry place
	pair  pair
}

// place is the place of an entry in the log.
type place struct{ index, term uint64 }

// releaser returns the pair that a request without a token releases.
func releaser(q *http.Request) (p pair, ok bool) {
	path, locks := strings.CutPrefix(q.URL.Path, lockapi.RouteLocks)
	in := q.URL.Query()
	return pair{in.Get("session"), path, in.Get("handle")}, locks && q.Method == http.MethodDelete && in.Get("token") == ""
}

// underway returns the entries on a leader's disk that request a lock for the
// pair and are not known to be committed.
func (o *oracle) underway(p pair) (found []denial) {
	for _, m := range o.w.machines {
		if !m.leads() {
			continue
		}
		for index := uint64(len(o.history)); index <= m.disk.high; index++ {
			l := m.disk.logs[index]
			if b, err := state.DecodeBatch(l.Data); err == nil && asks(b, p) {
				found = append(found, denial{place{index, l.Term}, p})
			}
		}
	}
	return found
}

// asks reports whether a batch requests a lock for the pair and has no
// operation that could end the hold or wait.
func asks(b state.Batch, p pair) bool {
	asked := false
	for i := range b.Commands {
		op := b.Commands[i].Operation
		_, acquires := op.(*state.Acquire)
		_, opens := op.(*state.OpenSession)
		switch {
		case about(op).session != p.session:
		case !acquires && !opens:
			return false
		case acquires && about(op) == p:
			asked = true
		}
	}
	return asked
}

// deny records the answer to a release that arrived while these were under way.
func (o *oracle) deny(before []denial, answer *httptest.ResponseRecorder) {
	if len(before) > 0 {
		o.w.stats.check("release behind an acquire")
	}
	if answer.Code != http.StatusOK || !bytes.Contains(answer.Body.Bytes(), []byte(`"released":false`)) {
		return
	}
	o.look()
	for _, d := range before {
		if d.entry.index >= uint64(len(o.history)) {
			o.denied[d.entry] = append(o.denied[d.entry], d.pair)
		}
	}
}

// denials checks a committed entry.
func (o *oracle) denials(at place, b state.Batch, out state.Outcome) {
	for _, p := range o.denied[at] {
		for i := range b.Commands {
			op, acquires := b.Commands[i].Operation.(*state.Acquire)
			r, _ := out.Results[i].(state.AcquireResult)
			if acquires && about(op) == p && (r.Hold != nil || r.Wait != nil) {
				o.w.fail("entry %d: %s/%s at %s becomes %v; a release after it got the answer that there is nothing to release",
					at.index, p.session, p.handle, p.path, r.Verdict)
			}
		}
	}
}
