package simcell

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// A session that was opened without a credential, while access was off, has no
// owner. Once access is on, it goes to a caller that may lock wherever it holds
// or waits.

// leaves opens such a session and takes locks with it. It returns "" if that
// failed.
func (g *guest) leaves(ctx context.Context) (session string) {
	q := lockapi.NewSessionRequest()
	q.TTLMS = 8000
	var got lockapi.Session
	p := &guestCall{who: g.name, floor: g.w.oracle.floor(), began: time.Now().UnixNano(), known: true}
	if g.came(p, g.send(ctx, 3*time.Second, g.anyone(), g.message(http.MethodPost, lockapi.RouteSessions, q, &got)), "an opened session") != nil {
		return ""
	}
	for range 1 + g.rng.IntN(2) {
		at := g.newPair(got.ID, g.path())
		q := lockapi.LockRequest{Session: got.ID, Handle: at.handle, Mode: lockapi.Shared, Queue: true}
		var grant lockapi.Grant
		p := &guestCall{who: g.name, floor: g.w.oracle.floor(), began: time.Now().UnixNano(), needs: []need{{access.Lock, at.path}}, session: got.ID}
		t := g.w.oracle.permits
		t.acquires[at] = append(t.acquires[at], p)
		err := g.send(ctx, 3*time.Second, g.anyone(), g.message(http.MethodPut, lockapi.RouteLocks+at.path, q, &grant))
		g.w.oracle.forbidden(p, err)
		if err == nil && grant.State == lockapi.StateHeld {
			g.w.oracle.acquired(g.name, p.floor, at, grant.Token)
		}
	}
	return got.ID
}

// usesOther makes a guest use a session that may have no owner.
func (g *guest) usesOther(ctx context.Context, session string) {
	p, m := g.newCall(g.message(http.MethodPost, lockapi.RouteSessions+"/"+session+"/keepalive", lockapi.KeepaliveRequest{}, &lockapi.Keepalive{}))
	g.uses(p, session)
	g.w.oracle.forbidden(p, g.send(ctx, 2*time.Second, g.anyone(), m))
}

// uses records that a call is for a session, or about it.
func (g *guest) uses(p *guestCall, session string) {
	p.session = session
	if session != "" {
		t := g.w.oracle.permits
		t.uses[session] = append(t.uses[session], p)
	}
}

// adopted checks that a session without owner went to a guest that has used it
// and might have made all its requests for locks.
func (o *oracle) adopted(index uint64, op *state.AdoptSession) {
	if !slices.ContainsFunc(o.w.access.guests, func(g *guest) bool { return op.Principal == lockapi.PrefixUser+g.name }) {
		return
	}
	o.w.stats.check("adopted session")
	if !slices.ContainsFunc(o.permits.uses[op.Session], func(p *guestCall) bool { return o.mayAdopt(p, op, index) }) {
		o.w.fail("entry %d: session %s goes to %s, which has not used it, or was never allowed to lock wherever it holds or waits", index, op.Session, op.Principal)
	}
}

func (o *oracle) mayAdopt(p *guestCall, op *state.AdoptSession, index uint64) bool {
	for i := p.floor; i < index; i++ {
		r := o.permits.by[i]
		if who, genuine := r.principal(p.sum, p.began); genuine && who == op.Principal && o.locksAll(r, who, i, op.Session) {
			return true
		}
	}
	return false
}

// locksAll reports whether a principal may lock wherever a session holds or
// waits after an entry.
func (o *oracle) locksAll(r *rights, who string, index uint64, session string) bool {
	for hold, wait := range o.before(index).HoldsAndWaits(session) {
		path := ""
		if hold != nil {
			path = hold.Path
		} else {
			path = wait.Path
		}
		if !r.May(who, access.Lock, path) {
			return false
		}
	}
	return true
}

// openedFor checks that the session opened for a caller belongs to it.
func (o *oracle) openedFor(p *guestCall, session string) {
	o.look()
	if p.sum == "" {
		return // anonymous callers share their keys
	}
	o.w.stats.check("opened session")
	// Its token may end before the session is open.
	owner, lives := "", false
	all := o.permits.by[p.floor:]
	for _, r := range all {
		if of, there := r.owner(session); there {
			owner, lives = of, true
		}
	}
	if !lives || !slices.ContainsFunc(all, func(r *rights) bool {
		who, genuine := r.principal(p.sum, p.began)
		return genuine && who == owner
	}) {
		o.w.fail("%s opened session %s, which belongs to %q (lives: %v)", p.who, session, owner, lives)
	}
}
