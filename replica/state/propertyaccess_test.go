package state_test

import (
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
	"github.com/stoutlock/stout/test/model"
)

// modelText is accessText for the model.
func modelText(a *model.Access) string {
	p := access.New().PutCell(a.Cell)
	for _, path := range slices.Sorted(maps.Keys(a.Rules)) {
		p, _ = p.PutRule(a.Rules[path])
	}
	for _, name := range slices.Sorted(maps.Keys(a.Groups)) {
		p, _ = p.PutGroup(&access.Members{Group: name, Members: a.Groups[name]})
	}
	for _, of := range slices.Sorted(maps.Keys(a.Quotas)) {
		p, _ = p.PutQuota(a.Quotas[of])
	}
	text := policyText(a.On, p)
	for _, t := range slices.SortedFunc(slices.Values(a.Tokens), func(a, b *state.Token) int { return strings.Compare(a.ID, b.ID) }) {
		text += "token " + tokenText(t) + "\n"
	}
	return text
}

// Few names, so that rules, groups and tokens affect each other.
var (
	somePrincipals = []string{"user:a", "user:b", "user:root"}
	someEntries    = append([]string{"group:g", "group:h", "group:i", "*", "anonymous"}, somePrincipals...)
	someGroups     = []string{"g", "h", "i"}
	someSecrets    = []string{"x", "y", "z"}
	someTokens     = []string{"t1", "t2", "t3"}
)

func drawEntries(t *rapid.T, from []string) []string {
	return rapid.SliceOfN(rapid.SampledFrom(from), 1, 3).Draw(t, "entries")
}

func (r *run) putRule(t *rapid.T) state.Operation {
	rule := access.Rule{Path: rapid.SampledFrom(append([]string{"/"}, somePaths...)).Draw(t, "path")}
	for _, p := range access.Permissions {
		if rapid.Bool().Draw(t, p.String()) {
			if rule.Lists == nil {
				rule.Lists = map[access.Permission][]string{}
			}
			rule.Lists[p] = append([]string{}, rapid.SliceOfN(rapid.SampledFrom(someEntries), 0, 2).Draw(t, "entries")...)
		}
	}
	return &state.PutRule{Rule: rule}
}

func (r *run) putGroup(t *rapid.T) state.Operation {
	members := []string{"group:g", "group:h", "group:i", "user:a", "user:b"}
	return &state.PutGroup{Group: access.Members{Group: rapid.SampledFrom(someGroups).Draw(t, "group"), Members: drawEntries(t, members)}}
}

func drawToken(t *rapid.T) state.Token {
	return state.Token{ID: rapid.SampledFrom(someTokens).Draw(t, "token"), Principal: rapid.SampledFrom(somePrincipals).Draw(t, "principal"),
		Sum: sumOf(rapid.SampledFrom(someSecrets).Draw(t, "secret")), ExpiresAt: rapid.Int64Range(0, 1).Draw(t, "until")}
}

func (r *run) enableAccess(t *rapid.T) state.Operation {
	token := drawToken(t)
	token.Principal, token.ExpiresAt = access.Root, 0
	return &state.EnableAccess{Token: token}
}

func drawQuota(t *rapid.T) access.Quota {
	q := access.Quota{Of: rapid.SampledFrom(someEntries).Draw(t, "of")}
	for _, r := range access.Resources {
		if rapid.IntRange(0, 3).Draw(t, r.String()) == 0 {
			if q.Limits == nil {
				q.Limits = map[access.Resource]int64{}
			}
			q.Limits[r] = rapid.Int64Range(0, 3).Draw(t, "limit")
		}
	}
	if _, ok := q.Limits[access.CallsPerSecond]; !ok {
		delete(q.Limits, access.Burst)
	}
	if len(q.Limits) == 0 {
		q.Limits = nil // as it is decoded
	}
	return q
}

// changeAccess draws one of the operations on access.
func (r *run) changeAccess(t *rapid.T) state.Operation {
	return rapid.SampledFrom([]func() state.Operation{
		func() state.Operation { return r.putRule(t) },
		func() state.Operation { return r.putGroup(t) },
		func() state.Operation { return r.enableAccess(t) },
		func() state.Operation { return &state.DropRule{Path: drawPath(t)} },
		func() state.Operation { return &state.DropRules{Dir: drawPath(t)} },
		func() state.Operation { return &state.DropGroup{Group: rapid.SampledFrom(someGroups).Draw(t, "group")} },
		func() state.Operation {
			return &state.PutCellRules{Rules: access.CellRules{Observe: drawEntries(t, someEntries), Operate: drawEntries(t, someEntries)}}
		},
		func() state.Operation { return &state.PutQuota{Quota: drawQuota(t)} },
		func() state.Operation { return &state.DropQuota{Of: rapid.SampledFrom(someEntries).Draw(t, "of")} },
		func() state.Operation { return &state.AddToken{Token: drawToken(t)} },
		func() state.Operation { return &state.DropToken{ID: rapid.SampledFrom(someTokens).Draw(t, "token")} },
		func() state.Operation { return &state.DisableAccess{} },
		func() state.Operation {
			op := &state.Expel{}
			op.Session, op.Path, op.Handle = r.aim(t)
			if _, w := r.model.HoldOrWait(op.Session, op.Path, op.Handle); w != nil {
				op.Seq = w.Seq + rapid.Uint64Range(0, 1).Draw(t, "other")
			}
			return op
		},
		func() state.Operation {
			return &state.AdoptSession{Session: drawSession(t), Principal: rapid.SampledFrom(somePrincipals).Draw(t, "principal")}
		},
	}).Draw(t, "access")()
}

// checkAccess compares rules, groups, quotas, lists and tokens, and looks up each token.
func (r *run) checkAccess(t *rapid.T) {
	if got, want := accessText(r.state), modelText(r.model.Access); got != want {
		t.Fatalf("access is\n%swant\n%s", got, want)
	}
	for _, secret := range someSecrets {
		got, _ := r.state.TokenOf([32]byte(sumOf(secret)))
		equal(t, "token of "+secret, got, r.model.Access.Token(sumOf(secret)))
	}
	if a, b := r.state.TokenCount(), len(r.model.Access.Tokens); a != b {
		t.Fatalf("%d tokens, want %d", a, b)
	}
	equal(t, "tokens after t1", tokenIDs(slices.Collect(r.state.Tokens("t1"))),
		tokenIDs(slices.DeleteFunc(slices.Clone(r.model.Access.Tokens), func(v *state.Token) bool { return v.ID <= "t1" })))
}

func tokenIDs(all []*state.Token) []string {
	var ids []string
	for _, t := range all {
		ids = append(ids, t.ID)
	}
	slices.Sort(ids)
	return ids
}
