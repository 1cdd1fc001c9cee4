package simcell

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// In half of the runs with access the operator puts quotas of the guests. The
// oracle counts what each principal has from the state of the log. It requires
// that no quota is exceeded, that each refusal names a quota that was used up,
// and that a master's own count is the same while a guest has no call under way.

// bounded lists what the quotas bound.
var bounded = []access.Resource{access.Sessions, access.Holds, access.Waiters, access.Files, access.Bytes}

// bounds are limits in the order of bounded; access.NoLimit for none.
type bounds [5]int64

// limitsOf returns the limits of a principal by the model's quotas: its own, and
// else the highest of its groups.
func (r *rights) limitsOf(who string) (all bounds) {
	for i, resource := range bounded {
		all[i] = access.NoLimit
		if !r.On {
			continue
		}
		if own := r.Quotas[who]; own != nil {
			if limit, named := own.Limits[resource]; named {
				all[i] = limit
				continue
			}
		}
		most := int64(-1)
		for of, q := range r.Quotas {
			if limit, named := q.Limits[resource]; named && strings.HasPrefix(of, lockapi.PrefixGroup) && r.Lists([]string{of}, who) {
				most = max(most, limit)
			}
		}
		if most >= 0 {
			all[i] = most
		}
	}
	return all
}

// uses returns a principal's use in the order of bounded.
func uses(u lockapi.QuotaUse) bounds {
	return bounds{u.Sessions, u.Holds, u.Waiters, u.Files, u.Bytes}
}

// countUse counts what each principal has.
func countUse(s *state.State) map[string]lockapi.QuotaUse {
	all, owners := map[string]lockapi.QuotaUse{}, map[string]string{}
	add := func(principal string, more lockapi.QuotaUse) {
		if principal == "" {
			principal = access.Anonymous
		}
		u := all[principal]
		all[principal] = lockapi.QuotaUse{Sessions: u.Sessions + more.Sessions, Holds: u.Holds + more.Holds,
			Waiters: u.Waiters + more.Waiters, Files: u.Files + more.Files, Bytes: u.Bytes + more.Bytes}
	}
	for v := range s.Sessions("") {
		owners[v.ID] = v.Principal
		add(v.Principal, lockapi.QuotaUse{Sessions: 1, Bytes: v.OwnBytes() + s.Answers(v.ID).Bytes()})
	}
	for h := range s.Holds() {
		add(owners[h.Session], lockapi.QuotaUse{Holds: 1, Bytes: state.BytesOfHandle(h.Path, h.Handle)})
	}
	for w := range s.Waits() {
		add(owners[w.Session], lockapi.QuotaUse{Holds: 1, Waiters: 1, Bytes: state.BytesOfHandle(w.Path, w.Handle)})
	}
	for f := range s.Files("", "") {
		add(f.Principal, lockapi.QuotaUse{Files: 1, Bytes: state.BytesOfFile(f.Path, len(f.Content))})
	}
	return all
}

// limited is a principal's use and its limits after the last entry.
type limited struct {
	limits bounds
	since  uint64 // the entry that set them
	use    bounds
}

// quotasKept checks that an entry exceeds no quota of a guest. A master admits
// calls by the quotas that it knows, so only those from before its office count.
func (o *oracle) quotasKept(before, after *state.State, out state.Outcome) {
	if o.w.access == nil || !o.w.profile.quotas {
		return
	}
	if after.Epoch != before.Epoch {
		o.opened = after.Index
	}
	adopts := slices.ContainsFunc(out.Changes, func(c state.Change) bool { _, is := c.(state.SessionAdopted); return is })
	all, r := countUse(after), o.permits.latest()
	for _, g := range o.w.access.guests {
		who := lockapi.PrefixUser + g.name
		was, now := o.limited[who], limited{limits: r.limitsOf(who), since: after.Index, use: uses(all[who])}
		if now.limits == was.limits {
			now.since = was.since
		}
		o.limited[who] = now
		if now.since >= o.opened || adopts {
			continue
		}
		for i, most := range now.limits {
			if most < access.NoLimit {
				o.w.stats.check("quota of a principal")
			}
			if now.use[i] > most && now.use[i] > was.use[i] && !o.hadSoMuch(who, i, now.use[i], after.Index) {
				o.w.fail("entry %d: %s has %d %v, at most %d are allowed since entry %d", after.Index, who, now.use[i], bounded[i], most, now.since)
			}
		}
	}
}

// hadSoMuch reports whether a principal had as much shortly before an entry. A
// principal above a limit that was lowered may overwrite its files. Such a write
// makes the file anew if a deletion comes first.
func (o *oracle) hadSoMuch(who string, i int, much int64, before uint64) bool {
	return slices.ContainsFunc(o.history[o.reportedUntil(o.w.now()-lingers):before], func(s *state.State) bool {
		return s != nil && uses(countUse(s)[who])[i] >= much
	})
}

// overQuota checks a refusal because of a quota of a principal: it is the
// caller's own, had that limit since the call began, and was used up by what the
// caller has and its calls under way.
func (o *oracle) overQuota(p *guestCall, err error) {
	e := refusal(err)
	if e == nil || e.Code != lockapi.CodeTooMany || e.Principal == "" {
		return
	}
	o.checks("refused for a quota of a principal")
	i := slices.IndexFunc(bounded, func(r access.Resource) bool { return r.String() == e.Quota })
	if i < 0 {
		o.w.fail("%s got %v, for a quota that the operator does not put", p.who, e)
		return
	}
	var g *guest
	for _, one := range o.w.access.guests {
		if one.name == p.who {
			g = one
		}
	}
	wasOff := false
	for at := o.countedUntil(p.floor); at < uint64(len(o.permits.by)); at++ {
		r := o.permits.by[at]
		if wasOff = wasOff || !r.On; wasOff && e.Principal == access.Anonymous && r.limitsOf(e.Principal)[i] == e.Limit {
			return // access was enabled during the call, which began without a principal
		}
		who, genuine := r.principal(p.sum, p.began)
		if who == "" {
			who = access.Anonymous
		}
		if !genuine || who != e.Principal || r.limitsOf(who)[i] != e.Limit {
			continue
		}
		if who == access.Anonymous || g == nil || !g.settledFor(r) || o.history[at] == nil {
			return
		}
		// Its other calls may add one each to what it has.
		has := uses(countUse(o.history[at])[who])[i]
		if bounded[i] == access.Bytes || e.Used <= has+g.unanswered() && e.Used >= e.Limit {
			return
		}
	}
	o.w.fail("%s got %v, which was never so since before its call (entry %d)", p.who, e, p.floor)
}

// settledFor reports whether only the guest's own calls count for it.
func (g *guest) settledFor(r *rights) bool {
	return r.On && g.w.net.again == 0 && g.w.now()-g.g.opened > lingers
}

// lingers is how long a call may stay under way after its caller has given up.
const lingers = 10 * time.Second

// send makes one call, and records whether it was answered.
func (g *guest) send(ctx context.Context, patience time.Duration, to string, m message) error {
	sent := g.w.now()
	g.sent = append(g.sent, sent)
	floor := g.w.oracle.floor()
	err := g.user.send(ctx, patience, to, m)
	if err == nil || refusal(err) != nil && !isUnknown(err) {
		g.sent = slices.DeleteFunc(g.sent, func(at time.Duration) bool { return at == sent })
		g.asOf = floor
	}
	return err
}

// unanswered returns the number of the guest's calls that may be under way.
func (g *guest) unanswered() int64 {
	g.sent = slices.DeleteFunc(g.sent, func(at time.Duration) bool { return g.w.now()-at > lingers })
	return int64(len(g.sent))
}

// checksUse compares the master's count of what the guest has with the log's,
// while the guest has no call under way.
func (g *guest) checksUse() {
	o := g.w.oracle
	o.look()
	p, who := o.master, lockapi.PrefixUser+g.name
	if p == nil || p.master == nil || g.unanswered() > 0 || !g.settledFor(o.permits.latest()) {
		return
	}
	all := p.master.UsedByPrincipals()
	if all == nil {
		return
	}
	o.checks("use of a principal")
	asOf := o.countedUntil(g.asOf)
	if !o.since(asOf, func(s *state.State) bool { return countUse(s)[who] == all[who] }) {
		o.w.fail("%s has counted %+v for %s, which was never so since entry %d; it has %+v", p.m.id, all[who], who, asOf, countUse(o.latest())[who])
	}
}

// countedUntil returns the last entry up to floor that the master has surely
// counted. An entry may be reported by a read or an event before: the goroutine
// that counts it may stall.
func (o *oracle) countedUntil(floor uint64) uint64 {
	return min(floor, o.reportedUntil(o.w.now()-lingers))
}

// quotaed lists the principals and groups that get quotas. The users are in none
// of them.
var quotaed = []string{"user:g1", "user:g2", "user:g3", "group:inner", "group:outer", access.Anonymous}

// limits puts or deletes a quota by one call.
func (g *operator) limits(ctx context.Context) {
	r, floor := g.quotas, g.w.oracle.floor()
	i := r.IntN(len(quotaed))
	of := quotaed[i]
	if r.IntN(5) == 0 {
		if g.call(ctx, http.MethodDelete, lockapi.RouteQuotas+"/"+of, nil, nil) == nil {
			g.w.oracle.acknowledged("there is no quota of "+of, floor, func(r *rights) bool { return r.Quotas[of] == nil })
		}
		return
	}
	var l lockapi.QuotaLimits
	want := map[access.Resource]int64{}
	for n, one := range l.Limits()[:len(bounded)] {
		if r.IntN(2) == 0 {
			limit := int64(r.IntN(4))
			if bounded[n] == access.Bytes {
				limit = 10*r.Int64N(300) + int64(i) // differs from that of others
			}
			*one.Limit, want[bounded[n]] = &limit, limit
		}
	}
	if g.call(ctx, http.MethodPut, lockapi.RouteQuotas+"/"+of, l, &lockapi.Quota{}) == nil {
		g.w.oracle.acknowledged("there is a quota of "+of, floor, func(r *rights) bool {
			return r.Quotas[of] != nil && r.Quotas[of].Same(&access.Quota{Of: of, Limits: want})
		})
	}
}

// unlimited deletes all quotas.
func (g *operator) unlimited(ctx context.Context) {
	for _, of := range quotaed {
		if g.w.oracle.now(func(r *rights) bool { return r.Quotas[of] != nil }) {
			g.insist(ctx, http.MethodDelete, lockapi.RouteQuotas+"/"+of, nil, nil)
		}
	}
}
