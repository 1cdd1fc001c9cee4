package simcell

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica/state/access"
)

// In some runs access is on. An operator sets it up while there are faults. The
// users keep all the rights that they need. Guests have rights below one path
// only, by rules and groups that the operator keeps changing.

// aclDir is the path below which rules change. The users may always read
// there.
const aclDir = "/acl/"

var (
	ruledPaths = []string{"/acl", "/acl/a", "/acl/a/b", "/acl/ab", "/acl/a/x"}
	aclTree    = []string{"/acl/x", "/acl/a", "/acl/a/x", "/acl/a/b", "/acl/a/b/x", "/acl/ab/x"}
)

// operator is the operator of access control, with its setup.
type operator struct {
	w      *world
	op     *user // makes the bare calls with the root token
	root   bool  // the root token is in use
	holds  bool  // no user's program runs while access is enabled, since callers without a token have no rights then
	ready  bool  // access is on, and users send their tokens
	over   bool  // the operator has finished
	guests []*guest
	tokens int
	opened time.Duration // when access was last enabled
	quotas *rand.Rand    // draws quotas, so that other runs stay the same
}

// newOperator draws whether access is on in a run. It has a random stream of
// its own, so that other runs stay the same.
func newOperator(w *world) *operator {
	if !w.opts.Access && !w.profile.access && rand.New(rand.NewPCG(w.opts.Seed, 3)).IntN(4) > 0 {
		return nil
	}
	g := &operator{w: w, op: newUser(w, 40), quotas: rand.New(rand.NewPCG(w.opts.Seed, 9))}
	g.op.name, g.op.clock = "op", &clock{w: w, rate: 1}
	for i := range 3 {
		u := newUser(w, 50+i)
		u.name, u.clock = fmt.Sprintf("g%d", i+1), &clock{w: w, rate: 1}
		g.guests = append(g.guests, &guest{user: u, g: g})
	}
	return g
}

// start starts the operator and the guests.
func (g *operator) start() {
	if g == nil {
		return
	}
	ctx := context.Background()
	g.op.ctx = ctx
	for _, one := range g.guests {
		one.ctx, one.secrets = ctx, []string{g.secret()}
	}
	go g.operate(ctx)
}

// holdsUsers reports whether users' programs must not start now.
func (g *operator) holdsUsers() bool { return g != nil && g.holds }

// credential adds a user's token to its request once access is on, and reports
// whether it did.
func (g *operator) credential(from string, q *http.Request) bool {
	if g == nil || !g.ready || !slices.ContainsFunc(g.w.users, func(u *user) bool { return u.name == from }) {
		return false
	}
	q.Header = q.Header.Clone()
	bear(q.Header, secretOf(from))
	return true
}

func bear(h http.Header, secret string) { h.Set("Authorization", "Bearer "+secret) }

// secretOf returns the secret of a caller's first token.
func secretOf(name string) string {
	return lockapi.SecretPrefix + "of-" + name + "-0123456789abcdef0123456789abcdef"
}

// secret returns a new secret for a guest.
func (g *operator) secret() string {
	g.tokens++
	return secretOf(fmt.Sprint("guest-", g.tokens))
}

func sumOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// operator returns the caller of commands to masters within their own process.
func (w *world) operator() *master.Caller {
	if w.access == nil {
		return &master.Caller{}
	}
	return &master.Caller{Principal: access.Root}
}

// call makes one call of the operator's.
func (g *operator) call(ctx context.Context, method, route string, in, out any) error {
	m := g.op.message(method, route, in, out)
	p := &guestCall{who: g.op.name, floor: g.w.oracle.floor(), began: time.Now().UnixNano(), known: true}
	if g.root {
		p.sum = sumOf(secretOf("root"))
		m.header = http.Header{}
		bear(m.header, secretOf("root"))
	}
	p.needs = []need{{access.Admin, "/"}} // only root has it
	err := g.op.send(ctx, 6*time.Second, g.op.anyone(), m)
	if isForbidden(err) {
		g.w.oracle.forbidden(p, err)
		g.root = !g.root
	}
	return err
}

// insist repeats a call until it succeeds, or an earlier one has had the
// effect. There is no access control before the cell's level is raised.
func (g *operator) insist(ctx context.Context, method, route string, in any, so func(*rights) bool) {
	for !g.w.isOver() {
		var out map[string]any
		err := g.call(ctx, method, route, in, &out)
		if err == nil || errors.Is(err, lockapi.CodeConflict) && so != nil && g.w.oracle.now(so) {
			return
		}
		g.op.wait(ctx, 300*time.Millisecond)
	}
}

// operate is the operator's program.
func (g *operator) operate(ctx context.Context) {
	defer func() { g.over = true }()
	for _, u := range g.w.users {
		g.giveToken(ctx, u.name, secretOf(u.name))
	}
	for _, one := range g.guests {
		g.giveToken(ctx, one.name, one.secrets[0])
	}
	var users []string
	for _, u := range g.w.users {
		users = append(users, lockapi.PrefixUser+u.name)
	}
	g.insist(ctx, http.MethodPut, lockapi.RouteGroups+"/users", lockapi.GroupMembers{Members: users}, nil)
	g.insist(ctx, http.MethodPut, lockapi.RouteGroups+"/staff", lockapi.GroupMembers{Members: []string{"group:users"}}, nil)
	g.insist(ctx, http.MethodPut, lockapi.RouteGroups+"/crew", lockapi.GroupMembers{Members: []string{"group:staff"}}, nil)
	crew := []string{"group:crew"}
	g.insist(ctx, http.MethodPut, lockapi.RouteRules+"/", lockapi.AccessLists{Read: crew, Lock: crew, Write: crew}, nil)
	for _, path := range ruledPaths {
		g.insist(ctx, http.MethodPut, lockapi.RouteRules+path, g.lists(), nil)
	}
	g.holds = true
	for _, u := range g.w.users {
		u.crash()
		u.forgets()
	}
	g.enable(ctx)
	if g.w.isOver() {
		return
	}
	g.w.trace.note(g.op.name, "access is on")
	g.w.stats.check("access on")
	g.ready, g.holds = true, false
	for _, u := range g.w.users {
		u.start()
	}
	for _, one := range g.guests {
		go one.visits(ctx)
		go one.looksOn(ctx)
	}
	for !g.w.faultsOver && !g.w.isOver() {
		g.op.wait(ctx, pick(g.op.rng, 100*time.Millisecond, time.Second, 3*time.Second))
		g.change(ctx)
		if g.w.profile.quotas && g.quotas.IntN(3) > 0 {
			g.limits(ctx)
		}
	}
	g.unlimited(ctx)
	g.enable(ctx)
}

// enableSecret is the secret of each replica, since callers here are not on the
// loopback address.
const enableSecret = "secret of the simulated cell"

// enable enables access if it is off.
func (g *operator) enable(ctx context.Context) {
	floor, on := g.w.oracle.floor(), func(r *rights) bool { return r.On }
	g.insist(ctx, http.MethodPost, lockapi.RouteEnable, lockapi.EnableRequest{TokenSHA256: sumOf(secretOf("root")), Secret: enableSecret}, on)
	if !g.w.isOver() {
		g.w.oracle.acknowledged("access is on", floor, on)
		g.root, g.opened = true, g.w.now()
	}
}

// giveToken creates a token for a caller.
func (g *operator) giveToken(ctx context.Context, name, secret string) {
	floor, there := g.w.oracle.floor(), func(r *rights) bool { return r.token(sumOf(secret)) != nil }
	g.insist(ctx, http.MethodPost, lockapi.RouteTokens, lockapi.TokenRequest{Principal: lockapi.PrefixUser + name, TokenSHA256: sumOf(secret)}, there)
	if !g.w.isOver() {
		g.w.oracle.acknowledged("there is a token", floor, there)
	}
}

// list draws the holders of a permission below aclDir; nil inherits the list
// above.
func (g *operator) list(inherit int, always ...string) []string {
	if g.op.rng.IntN(4) < inherit {
		return nil
	}
	out := append([]string{}, always...)
	for _, entry := range []string{"user:g1", "user:g2", "group:inner", "group:outer"} {
		if g.op.rng.IntN(4) == 0 {
			out = append(out, entry)
		}
	}
	if g.op.rng.IntN(10) == 0 {
		out = append(out, lockapi.AllPrincipals)
	}
	if g.op.rng.IntN(10) == 0 {
		out = append(out, lockapi.PrincipalAnonymous)
	}
	return out
}

// lists draws a rule.
func (g *operator) lists() lockapi.AccessLists {
	return lockapi.AccessLists{Read: g.list(1, "group:crew"), Lock: g.list(1), Write: g.list(1), Admin: g.list(2)}
}

// change changes the rights by one call.
func (g *operator) change(ctx context.Context) {
	floor, r := g.w.oracle.floor(), g.op.rng
	var err error
	var so func(*rights) bool
	what := ""
	switch n := r.IntN(24); {
	case n < 9:
		path, lists := pick(r, ruledPaths...), g.lists()
		want := ruleOf(path, lists)
		what, so = "a rule is at "+path, func(r *rights) bool { return r.Rules[path] != nil && r.Rules[path].Same(want) }
		err = g.call(ctx, http.MethodPut, lockapi.RouteRules+path, lists, &lockapi.AccessRule{})
	case n < 10:
		path := pick(r, ruledPaths...)
		what, so = "no rule is at "+path, func(r *rights) bool { return r.Rules[path] == nil }
		err = g.call(ctx, http.MethodDelete, lockapi.RouteRules+path, nil, nil)
	case n < 11:
		path := pick(r, ruledPaths...)
		what, so = "no rule is below "+path, func(r *rights) bool { return len(r.Below(path)) == 0 }
		err = g.call(ctx, http.MethodDelete, lockapi.RouteRules+"?prefix="+path+"/", nil, nil)
	case n < 15:
		name := pick(r, "inner", "outer", "outermost")
		members := []string{}
		for _, m := range []string{"user:g1", "user:g2", "user:g3", "group:inner", "group:outer", "group:outermost"} {
			if r.IntN(3) == 0 && m != lockapi.PrefixGroup+name {
				members = append(members, m)
			}
		}
		what, so = fmt.Sprintf("%q are the members of %s", members, name), func(r *rights) bool { return slices.Equal(r.Groups[name], members) }
		err = g.call(ctx, http.MethodPut, lockapi.RouteGroups+"/"+name, lockapi.GroupMembers{Members: members}, &lockapi.Group{})
	case n < 18:
		g.exchange(ctx, g.guests[r.IntN(len(g.guests))])
		return
	case n < 19:
		g.passing(ctx, g.guests[r.IntN(len(g.guests))])
		return
	case n < 22:
		g.rulesName(ctx)
		return
	default:
		what, so = "access is off", func(r *rights) bool { return !r.On }
		if err = g.call(ctx, http.MethodPost, lockapi.RouteDisable, nil, nil); err == nil {
			g.w.oracle.acknowledged(what, floor, so)
		}
		g.op.wait(ctx, time.Second)
		left := g.guests[r.IntN(len(g.guests))].leaves(ctx)
		g.enable(ctx)
		for _, i := range r.Perm(len(g.guests)) {
			if left != "" {
				g.guests[i].usesOther(ctx, left)
			}
		}
		return
	}
	if err == nil {
		g.w.oracle.acknowledged(what, floor, so)
	}
}

func ruleOf(path string, l lockapi.AccessLists) *access.Rule {
	r := &access.Rule{Path: path, Lists: map[access.Permission][]string{}}
	for p, list := range map[access.Permission][]string{access.Read: l.Read, access.Lock: l.Lock, access.Write: l.Write, access.Admin: l.Admin} {
		if list != nil {
			r.Lists[p] = list
		}
	}
	return r
}

// exchange gives a guest another token and revokes the former one.
func (g *operator) exchange(ctx context.Context, one *guest) {
	old, next := one.secrets[len(one.secrets)-1], g.secret()
	g.giveToken(ctx, one.name, next)
	one.secrets = append(one.secrets, next)
	t := g.w.oracle.permits.latest().token(sumOf(old))
	if t == nil || g.w.isOver() {
		return
	}
	floor := g.w.oracle.floor()
	if g.call(ctx, http.MethodDelete, lockapi.RouteTokens+"/"+t.ID, nil, nil) == nil {
		g.w.oracle.acknowledged("a token has ended", floor, func(r *rights) bool { return r.token(sumOf(old)) == nil })
	}
}

// passing gives a guest a token that ends by itself.
func (g *operator) passing(ctx context.Context, one *guest) {
	secret := g.secret()
	in := lockapi.TokenRequest{Principal: lockapi.PrefixUser + one.name, TokenSHA256: sumOf(secret), TTLMS: 200 + g.op.rng.Int64N(6000)}
	if g.call(ctx, http.MethodPost, lockapi.RouteTokens, in, &lockapi.Token{}) == nil {
		one.passing = secret
	}
}
