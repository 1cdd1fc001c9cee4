package server_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// fakeAccess is who may do what, of a fake that lets everybody do everything.
type fakeAccess struct {
	rules  map[string]lockapi.AccessRule
	groups map[string]lockapi.Group
	cell   lockapi.CellAccess
	tokens map[string]lockapi.Token
	on     bool
}

func newFakeAccess() fakeAccess {
	return fakeAccess{rules: map[string]lockapi.AccessRule{}, groups: map[string]lockapi.Group{}, tokens: map[string]lockapi.Token{},
		cell: lockapi.CellAccess{Observe: []string{}, Operate: []string{}}}
}

func (f *fakeMaster) Judge(*master.Caller) error { return nil }

func (f *fakeMaster) PutRule(ctx context.Context, req master.RuleChange) (lockapi.AccessRule, error) {
	if err := f.enter(ctx, fmt.Sprintf("put rule %s %v", req.Path, req.AccessLists), false); err != nil {
		return lockapi.AccessRule{}, err
	}
	defer f.mu.Unlock()
	f.access.rules[req.Path] = lockapi.AccessRule{Path: req.Path, AccessLists: req.AccessLists}
	return f.access.rules[req.Path], nil
}

func (f *fakeMaster) DropRule(ctx context.Context, req master.RuleChange) error {
	return f.dropping(ctx, "drop rule "+req.Path, func() { delete(f.access.rules, req.Path) })
}

// dropping makes a call after which something is gone.
func (f *fakeMaster) dropping(ctx context.Context, call string, drop func()) error {
	if err := f.enter(ctx, call, false); err != nil {
		return err
	}
	defer f.mu.Unlock()
	drop()
	return nil
}

// find reads what a fake has under a name.
func find[V any](ctx context.Context, f *fakeMaster, r master.Read, call string, in map[string]V, name string) (V, error) {
	var none V
	if err := f.enter(ctx, call+" "+name, r.Stale); err != nil {
		return none, err
	}
	defer f.mu.Unlock()
	f.asOf(r)
	v, ok := in[name]
	if !ok {
		return none, lockapi.Errorf(lockapi.CodeNotFound, "there is no %s %q", call, lockapi.Clip(name))
	}
	return v, nil
}

// list reads all that a fake has, in the order of the names.
func list[V any](ctx context.Context, f *fakeMaster, r master.Read, call string, in map[string]V) ([]V, error) {
	if err := f.enter(ctx, call, r.Stale); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	f.asOf(r)
	all := []V{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		all = append(all, in[name])
	}
	return all, nil
}

func (f *fakeMaster) Rule(ctx context.Context, q master.AccessQuery) (lockapi.AccessRule, error) {
	return find(ctx, f, q.Read, "rule", f.access.rules, q.Path)
}

func (f *fakeMaster) Rules(ctx context.Context, q master.AccessPage) (lockapi.AccessRuleList, error) {
	all, err := list(ctx, f, q.Read, fmt.Sprintf("rules %s %s %d", q.Prefix, q.After, q.Limit), f.access.rules)
	return lockapi.AccessRuleList{Rules: all}, err
}

func (f *fakeMaster) CheckAccess(ctx context.Context, q master.CheckQuery) (lockapi.AccessCheck, error) {
	if err := f.enter(ctx, "check access "+q.Path+" "+q.Principal, q.Stale); err != nil {
		return lockapi.AccessCheck{}, err
	}
	defer f.mu.Unlock()
	f.asOf(q.Read)
	at := "/"
	yes := lockapi.AccessVerdict{Allowed: true, Rule: &at}
	return lockapi.AccessCheck{Principal: "user:x", Path: q.Path, Read: yes, Lock: yes, Write: yes}, nil
}

func (f *fakeMaster) DropRulesBelow(ctx context.Context, req master.RuleChange) (lockapi.RulesDeleted, error) {
	var out lockapi.RulesDeleted
	err := f.dropping(ctx, "drop rules below "+req.Path, func() {
		for path := range f.access.rules {
			if strings.HasPrefix(path, strings.TrimSuffix(req.Path, "/")+"/") {
				out.Deleted = true
				delete(f.access.rules, path)
			}
		}
	})
	return out, err
}

func (f *fakeMaster) PutGroup(ctx context.Context, req master.GroupChange) (lockapi.Group, error) {
	if err := f.enter(ctx, fmt.Sprintf("put group %s %q", req.Name, req.Members), false); err != nil {
		return lockapi.Group{}, err
	}
	defer f.mu.Unlock()
	f.access.groups[req.Name] = lockapi.Group{Name: req.Name, GroupMembers: req.GroupMembers}
	return f.access.groups[req.Name], nil
}

func (f *fakeMaster) DropGroup(ctx context.Context, req master.GroupChange) error {
	return f.dropping(ctx, "drop group "+req.Name, func() { delete(f.access.groups, req.Name) })
}

func (f *fakeMaster) Group(ctx context.Context, q master.AccessQuery) (lockapi.Group, error) {
	return find(ctx, f, q.Read, "group", f.access.groups, q.Name)
}

func (f *fakeMaster) Groups(ctx context.Context, q master.AccessPage) (lockapi.GroupList, error) {
	all, err := list(ctx, f, q.Read, "groups", f.access.groups)
	return lockapi.GroupList{Groups: all}, err
}

func (f *fakeMaster) PutCellAccess(ctx context.Context, req master.CellAccessChange) (lockapi.CellAccess, error) {
	if err := f.enter(ctx, fmt.Sprintf("put cell %q %q", req.Observe, req.Operate), false); err != nil {
		return lockapi.CellAccess{}, err
	}
	defer f.mu.Unlock()
	f.access.cell = lockapi.CellAccess{Observe: append([]string{}, req.Observe...), Operate: append([]string{}, req.Operate...)}
	return f.access.cell, nil
}

func (f *fakeMaster) CellAccess(ctx context.Context, r master.Read) (lockapi.CellAccess, error) {
	return find(ctx, f, r, "cell access", map[string]lockapi.CellAccess{"": f.access.cell}, "")
}

func (f *fakeMaster) CreateToken(ctx context.Context, req master.TokenCreation) (lockapi.Token, error) {
	if err := f.enter(ctx, fmt.Sprintf("create token %+v", req.TokenRequest), false); err != nil {
		return lockapi.Token{}, err
	}
	defer f.mu.Unlock()
	return f.addToken(req.Principal, req.TokenSHA256, req.TTLMS), nil
}

func (f *fakeMaster) addToken(principal, sum string, ttl int64) lockapi.Token {
	t := lockapi.Token{ID: fmt.Sprintf("t%d", len(f.access.tokens)+1), Principal: principal, CreatedAt: time.Unix(1, 0).UTC()}
	if ttl > 0 {
		at := time.Unix(2, 0).UTC()
		t.ExpiresAt = &at
	}
	f.access.tokens[t.ID] = t
	if sum == "" {
		t.Secret = "stout_secret"
	}
	return t
}

func (f *fakeMaster) Tokens(ctx context.Context, q master.AccessPage) (lockapi.TokenList, error) {
	all, err := list(ctx, f, q.Read, fmt.Sprintf("tokens %s %d", q.After, q.Limit), f.access.tokens)
	return lockapi.TokenList{Tokens: all}, err
}

func (f *fakeMaster) RevokeToken(ctx context.Context, req master.TokenRevocation) error {
	return f.dropping(ctx, "revoke token "+req.ID, func() { delete(f.access.tokens, req.ID) })
}

func (f *fakeMaster) EnableAccess(ctx context.Context, req master.AccessEnabling) (lockapi.Token, error) {
	if err := f.enter(ctx, "enable "+req.TokenSHA256, false); err != nil {
		return lockapi.Token{}, err
	}
	defer f.mu.Unlock()
	if f.access.on {
		return lockapi.Token{}, lockapi.Errorf(lockapi.CodeConflict, "access is on already")
	}
	f.access.on = true
	return f.addToken(lockapi.PrincipalRoot, req.TokenSHA256, 0), nil
}

func (f *fakeMaster) DisableAccess(ctx context.Context, _ master.Caller) error {
	return f.dropping(ctx, "disable", func() { f.access.on = false })
}

func (f *fakeMaster) WhoAmI(ctx context.Context, r master.Read) (lockapi.WhoAmI, error) {
	return find(ctx, f, r, "who am I", map[string]lockapi.WhoAmI{"": {Principal: lockapi.PrincipalAnonymous, How: lockapi.HowNone}}, "")
}
