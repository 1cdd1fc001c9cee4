package simcell

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// givenUpWithin is how long a master may take to give up what a call has left
// behind whose connection broke.
const givenUpWithin = 10 * time.Second

// claimant is the pair that a request asks a lock for, and keeps says that its
// place is to be kept.
func claimant(q *http.Request, body []byte) (p pair, keeps, ok bool) {
	path, locks := strings.CutPrefix(q.URL.Path, lockapi.RouteLocks)
	var in lockapi.LockRequest
	if q.Method != http.MethodPut || !locks || json.Unmarshal(body, &in) != nil {
		return p, false, false
	}
	return pair{in.Session, path, in.Handle}, in.Queue, true
}

// broke is called when a process has answered a call whose connection it knew
// to be broken. Unless it granted the lock in that very moment, or has granted
// it to a copy of the call, nothing may be left of a pair for which no call, or
// late copy of one, is under way any more: whoever does not hear of a grant
// does not become a holder. That is for the office in which the call came: to a
// later one a grant of an earlier one's is as good as any. And it is for pairs
// that never asked for a place to be kept: such a place outlives its calls.
func (p *process) broke(who pair, came master.Location, status int) {
	at := p.master.Known()
	if status == http.StatusOK || !at.Self || at.Epoch != came.Epoch {
		return
	}
	j, called := p.m.w.judge, p.m.w.called[who]
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
		hold, wait := j.latest().Claim(who.session, who.path, who.handle)
		if hold != nil || wait != nil {
			j.w.fail("the connection of %s/%s, which asked for %s, broke %v ago, and it still has a claim there", who.session, who.handle, who.path, givenUpWithin)
		}
	})
}
