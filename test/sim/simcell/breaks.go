package simcell

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// givenUpWithin is how long a master may take to drop the hold or wait of a call with
// a broken connection.
const givenUpWithin = 10 * time.Second

// requesters returns the pairs that request locks, if it is a request for locks;
// keeps reports whether their place is to be kept.
func requesters(q *http.Request, body []byte) (all []pair, keeps bool) {
	path, locks := strings.CutPrefix(q.URL.Path, lockapi.RouteLocks)
	var in lockapi.LockRequest
	if q.Method != http.MethodPut || !locks || json.Unmarshal(body, &in) != nil {
		return nil, false
	}
	for _, path := range append([]string{path}, in.With...) {
		all = append(all, pair{in.Session, path, in.Handle})
	}
	return all, in.Queue
}

// broke is called when a process has answered a call after noticing its broken
// connection. The pair must then have no hold or wait left, because a caller without
// an answer must not become a holder. There are exceptions: the master granted
// the lock at that very moment, or to a copy of the call, or another call or
// copy of the pair is under way. The rule holds within the call's office; a
// later office treats an earlier grant like any other. It excludes pairs that
// ever asked for a place to be kept, since such a place outlives its calls.
func (p *process) broke(who pair, came master.Location, status int) {
	at := p.master.Known()
	if status == http.StatusOK || !at.Self || at.Epoch != came.Epoch {
		return
	}
	j, called := p.m.w.oracle, p.m.w.called[who]
	p.m.w.later(givenUpWithin, func() {
		now, w := p.master.Known(), p.m.w
		if p.dead() || p.m.resume != nil || !now.Self || now.Epoch != at.Epoch {
			return
		}
		if w.called[who] != called || w.calling[who] > 0 || w.granted[who] || w.keeps[who] {
			return
		}
		j.look()
		j.w.stats.check("broken call")
		hold, wait := j.latest().HoldOrWait(who.session, who.path, who.handle)
		if hold != nil || wait != nil {
			j.w.fail("the connection of %s/%s, which requested %s, broke %v ago, and it still holds or waits there", who.session, who.handle, who.path, givenUpWithin)
		}
	})
}
