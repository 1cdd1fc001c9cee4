package simcell

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// A release that comes while an acquire of the same pair is in the master's log
// stands behind it there: to answer from memory that there is nothing to
// release would leave a hold that its caller takes for given up.

// denial is an acquire in a leader's log that a release was denied before.
type denial struct {
	entry place
	pair  pair
}

// place is that of an entry in the log.
type place struct{ index, term uint64 }

// releaser is the pair that a request releases, whatever its grant.
func releaser(q *http.Request) (p pair, ok bool) {
	path, locks := strings.CutPrefix(q.URL.Path, lockapi.RouteLocks)
	in := q.URL.Query()
	return pair{in.Get("session"), path, in.Get("handle")}, locks && q.Method == http.MethodDelete && in.Get("token") == ""
}

// underway are the entries that ask a lock for the pair and are on the disk of
// a leader, but not known to be committed.
func (j *judge) underway(p pair) (found []denial) {
	for _, m := range j.w.machines {
		if !m.leads() {
			continue
		}
		for index := uint64(len(j.history)); index <= m.disk.high; index++ {
			l := m.disk.logs[index]
			if b, err := state.DecodeBatch(l.Data); err == nil && asks(b, p) {
				found = append(found, denial{place{index, l.Term}, p})
			}
		}
	}
	return found
}

// asks reports whether a batch asks a lock for the pair, and does nothing else
// that could end what it gets.
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

// deny notes the answer to a release that came when those were under way.
func (j *judge) deny(before []denial, answer *httptest.ResponseRecorder) {
	if len(before) > 0 {
		j.w.stats.check("release behind an acquire")
	}
	if answer.Code != http.StatusOK || !bytes.Contains(answer.Body.Bytes(), []byte(`"released":false`)) {
		return
	}
	j.look()
	for _, d := range before {
		if d.entry.index >= uint64(len(j.history)) {
			j.denied[d.entry] = append(j.denied[d.entry], d.pair)
		}
	}
}

// denials checks an entry that is committed.
func (j *judge) denials(at place, b state.Batch, out state.Outcome) {
	for _, p := range j.denied[at] {
		for i := range b.Commands {
			op, acquires := b.Commands[i].Operation.(*state.Acquire)
			r, _ := out.Results[i].(state.AcquireResult)
			if acquires && about(op) == p && (r.Hold != nil || r.Wait != nil) {
				j.w.fail("entry %d: %s/%s at %s comes to %v; a release behind it was told that there is nothing to release",
					at.index, p.session, p.handle, p.path, r.Verdict)
			}
		}
	}
}
