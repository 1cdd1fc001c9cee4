package simcell

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state/access"
)

// The name of a sequential file is the revision that creates it. Rules at such
// names are put before the files exist, by guesses at the coming revisions.

// namePrefixes are the prefixes of the numbers.
var namePrefixes = []string{"/acl/a/q-", "/acl/ab/q/"}

// rulesName puts a rule at the name of a file that may be created next, and
// lets guests create files there.
func (g *operator) rulesName(ctx context.Context) {
	r, floor, prefix := g.op.rng, g.w.oracle.floor(), pick(g.op.rng, namePrefixes...)
	path := prefix + digits(g.w.oracle.revisions.revision()+2+r.Uint64N(6))
	lists := lockapi.AccessLists{Read: []string{"group:crew"}, Write: g.list(0)}
	want := ruleOf(path, lists)
	if g.call(ctx, http.MethodPut, lockapi.RouteRules+path, lists, &lockapi.AccessRule{}) != nil {
		return
	}
	g.w.oracle.acknowledged("a rule is at "+path, floor, func(r *rights) bool { return r.Rules[path] != nil && r.Rules[path].Same(want) })
	for _, i := range r.Perm(len(g.guests)) {
		g.guests[i].names(ctx, prefix)
	}
}

// names creates sequential files: one, or several in one transaction.
func (g *guest) names(ctx context.Context, prefix string) {
	w := g.newWrite("", prefix)
	w.sequential = true
	var one lockapi.FileStat
	var all lockapi.TransactionResult
	m := g.message(http.MethodPost, lockapi.RouteFiles+prefix, nil, &one)
	content := g.w.oracle.intends(w).content
	m.raw = []byte(content)
	if g.rng.IntN(3) > 0 {
		w.paths = slices.Repeat(w.paths, 4)
		create := lockapi.Operation{CreateSequential: &lockapi.WriteOperation{Path: prefix, Content: &content}}
		m = g.message(http.MethodPost, lockapi.RouteTransactions, lockapi.Transaction{Then: slices.Repeat([]lockapi.Operation{create}, 4)}, &all)
	}
	p, m := g.newCall(m)
	if p.sum == "" {
		return // all rules together decide whether anonymous callers may
	}
	p.known, w.guestCall = true, p
	err := g.send(ctx, 6*time.Second, g.anyone(), m)
	switch e := refusal(err); {
	case err == nil && len(all.Results) > 0:
		var stats []*lockapi.FileStat
		for i := range all.Results {
			stats = append(stats, &all.Results[i].File.FileStat)
		}
		g.recordWrite(p.floor, w, nil, stats...)
	case err == nil:
		g.recordWrite(p.floor, w, nil, &one)
	case isForbidden(err):
		g.w.oracle.notWritten(w, err)
		g.w.oracle.unnamed(p, prefix, e)
	}
}

// unnamed checks the answer that a caller may not write at a name. That must
// have been so at some moment since its call.
func (o *oracle) unnamed(p *guestCall, prefix string, e *lockapi.Error) {
	if e.Code != lockapi.CodePermissionDenied {
		o.forbidden(p, e)
		return
	}
	o.checks("refused name")
	all := slices.Clone(o.permits.by[p.floor:])
	for i := p.floor; i < uint64(len(o.permits.by)); i++ {
		all = append(all, o.permits.steps[i]...)
	}
	number, fits := strings.CutPrefix(e.Path, prefix)
	asks := *p
	asks.needs = []need{{access.Write, e.Path}}
	if !fits || len(number) != lockapi.SequentialDigits || !slices.ContainsFunc(all, func(r *rights) bool { return r.answer(&asks, p.began) == e.Code }) {
		o.w.fail("%s got %v for a file below %s, which was never so since before its call (entry %d)", p.who, e, prefix, p.floor)
	}
}

// mayName reports whether the caller of a write may write at the name that an
// entry gave to its file. In a cell of a lower level, and while access is off,
// the prefix of the number decides.
func (o *oracle) mayName(w *write, index uint64, path string) bool {
	o.w.stats.check("name of a sequential file")
	p, t := *w.guestCall, o.permits
	who := lockapi.PrefixUser + p.who
	now := append([]*rights{t.by[index-1], t.by[index]}, t.steps[index]...)
	if slices.ContainsFunc(now, func(r *rights) bool { return r.May(who, access.Write, path) }) {
		return true
	}
	p.needs = []need{{access.Write, w.paths[0] + digits(0)}}
	since := t.by[min(p.floor, index-1):index]
	return slices.ContainsFunc(since, func(r *rights) bool { return !r.On }) || !o.before(p.floor).ChecksNames() && o.permitted(&p, index)
}
