package master

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/quota"
	"github.com/stoutlock/stout/master/internal/rights"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// The calls that manage access. asks.go checks the right to make them, as for
// every call.

// changeAccess proposes a change, unless it changes nothing.
func (m *Master) changeAccess(by *Caller, op state.Operation) (state.Result, error) {
	return serve(m, by, func(o *office) (state.Result, error) {
		if err := o.ReadyFor(op); err != nil {
			return nil, err
		}
		r, ok := o.fromMemory(op)
		if !ok {
			reserved, err := o.reserveRule(by, op)
			if err != nil {
				return nil, err
			}
			defer o.quotas.Release(reserved)
			if r, err = o.propose(by, op); err != nil {
				return nil, err
			}
		}
		switch r {
		case state.Full:
			return r, errPolicyFull(o.log.State().Policy(), op)
		case state.Cycle:
			return r, lockapi.Invalid("members", "the group would contain itself through one of its members")
		}
		return r, nil
	})
}

// errPolicyFull returns the refusal of a change because the policy is full.
func errPolicyFull(p *access.Policy, op state.Operation) error {
	quota, used, most := "group-members", int64(access.MaxReach), int64(access.MaxReach)
	switch op.(type) {
	case *state.PutRule:
		quota, used, most = "rules", int64(p.RuleCount()), access.MaxRules
	case *state.PutGroup:
		if n := p.GroupCount(); n >= access.MaxGroups {
			quota, used, most = "groups", int64(n), access.MaxGroups
		}
	case *state.PutQuota:
		return lockapi.TooMany("quotas", int64(p.QuotaCount()), access.MaxQuotas, "there are %d quotas, which is the limit; use quotas of groups", access.MaxQuotas)
	}
	return lockapi.TooMany(quota, used, most, "the limit on rules, groups or group members is reached (%d rules, %d groups)", access.MaxRules, access.MaxGroups)
}

// reserveRule reserves quota for a PutRule of a caller that is not an operator.
func (o *office) reserveRule(by *Caller, op state.Operation) (quota.Reservation, error) {
	put, ok := op.(*state.PutRule)
	if s := o.log.State(); !ok || !s.AccessOn || s.Policy().Operates(by.who().Identity()) {
		return quota.Reservation{}, nil
	}
	rule := put.Rule
	rule.Principal = by.Principal
	return o.quotas.Rule(&rule)
}

// PutRule puts a rule at a path.
func (m *Master) PutRule(_ context.Context, by *Caller, c *lockapi.PutRule) (lockapi.AccessRule, error) {
	r := access.Rule{Path: c.Path, Lists: map[access.Permission][]string{}}
	for p, list := range map[access.Permission][]string{access.Read: c.Read, access.Lock: c.Lock, access.Write: c.Write, access.Admin: c.Admin} {
		if list != nil {
			r.Lists[p] = list
		}
	}
	_, err := m.changeAccess(by, &state.PutRule{Rule: r})
	return ruleOf(&r), err
}

// DeleteRule removes the rule at a path. Removing a missing rule succeeds.
func (m *Master) DeleteRule(_ context.Context, by *Caller, c *lockapi.DeleteRule) error {
	_, err := m.changeAccess(by, &state.DropRule{Path: c.Path})
	return err
}

// DeleteRulesBelow removes the rules below a directory, and reports whether
// there were any. The rule at the directory itself stays.
func (m *Master) DeleteRulesBelow(_ context.Context, by *Caller, c *lockapi.DeleteRulesBelow) (lockapi.RulesDeleted, error) {
	r, err := m.changeAccess(by, &state.DropRules{Dir: rights.ListPath(c.Prefix)})
	return lockapi.RulesDeleted{Deleted: r == state.Done}, err
}

// GetRule reads the rule at a path. The error is not_found.
func (m *Master) GetRule(ctx context.Context, q *Read, c *lockapi.GetRule) (lockapi.AccessRule, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (lockapi.AccessRule, error) {
		r, ok := s.Policy().Rule(c.Path)
		if !ok {
			return lockapi.AccessRule{}, lockapi.Errorf(lockapi.CodeNotFound, "there is no rule at %q; the nearest rule above it decides", lockapi.Clip(c.Path))
		}
		return ruleOf(r), nil
	})
}

func ruleOf(r *access.Rule) lockapi.AccessRule {
	return lockapi.AccessRule{Path: r.Path, AccessLists: lockapi.AccessLists{
		Read: r.Lists[access.Read], Lock: r.Lists[access.Lock], Write: r.Lists[access.Write], Admin: r.Lists[access.Admin]}}
}

// ListRules reads a page of the rules that the caller may change, in bytewise
// order of their paths.
func (m *Master) ListRules(ctx context.Context, q *Read, c *lockapi.ListRules) (lockapi.AccessRuleList, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (page lockapi.AccessRuleList, err error) {
		sees := func(r *access.Rule) bool { return q.Caller.who().MayChangeRule(s, r.Path) }
		page.Rules, page.Next = pageOf(only(s.Policy().Rules(c.Prefix, c.After), sees), c.Limit, func(r *access.Rule) (lockapi.AccessRule, string, int) {
			one := ruleOf(r)
			one.Principal = r.Principal
			return one, r.Path, ruleSize(r)
		})
		return page, nil
	})
}

// CheckAccess reports what a principal may do at a path while access is on, and
// which rules decide it.
func (m *Master) CheckAccess(ctx context.Context, q *Read, c *lockapi.CheckAccess) (lockapi.AccessCheck, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (lockapi.AccessCheck, error) {
		who := q.Caller.who().Identity()
		if c.Principal != nil {
			who = *c.Principal
		}
		if s.AccessOn && who != q.Caller.who().Identity() && !q.Caller.who().MayChangeRule(s, c.Path) {
			permission := lockapi.PermissionAdmin
			if c.Path == "/" {
				permission = lockapi.PermissionOperate
			}
			return lockapi.AccessCheck{}, q.Caller.who().Denied(permission, c.Path)
		}
		verdict := func(p access.Permission) lockapi.AccessVerdict {
			d := s.Policy().May(who, p, c.Path)
			out := lockapi.AccessVerdict{Allowed: d.Allowed}
			if d.Rule != nil {
				out.Rule = &d.Rule.Path
			}
			return out
		}
		return lockapi.AccessCheck{Principal: who, Path: c.Path, Read: verdict(access.Read), Lock: verdict(access.Lock),
			Write: verdict(access.Write), Admin: verdict(access.Admin)}, nil
	})
}

// PutGroup makes a group, or replaces its members.
func (m *Master) PutGroup(_ context.Context, by *Caller, c *lockapi.PutGroup) (lockapi.Group, error) {
	g := access.Members{Group: c.Name, Members: c.Members}
	_, err := m.changeAccess(by, &state.PutGroup{Group: g})
	return groupOf(&g), err
}

// DeleteGroup removes a group. Removing a missing group succeeds. Rules that
// name the group stay, and grant nothing.
func (m *Master) DeleteGroup(_ context.Context, by *Caller, c *lockapi.DeleteGroup) error {
	_, err := m.changeAccess(by, &state.DropGroup{Group: c.Name})
	return err
}

// GetGroup reads a group. The error is not_found.
func (m *Master) GetGroup(ctx context.Context, q *Read, c *lockapi.GetGroup) (lockapi.Group, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (lockapi.Group, error) {
		g, ok := s.Policy().Group(c.Name)
		if !ok {
			return lockapi.Group{}, lockapi.Errorf(lockapi.CodeNotFound, "there is no group %q", lockapi.Clip(c.Name))
		}
		return groupOf(g), nil
	})
}

// ListGroups reads a page of groups in the order of their names.
func (m *Master) ListGroups(ctx context.Context, q *Read, c *lockapi.ListGroups) (lockapi.GroupList, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (page lockapi.GroupList, err error) {
		page.Groups, page.Next = pageOf(s.Policy().Groups(c.After), access.MaxGroups, func(g *access.Members) (lockapi.Group, string, int) {
			return groupOf(g), g.Group, 32 + textSize(g.Group) + textSize(g.Members...) + 3*len(g.Members)
		})
		return page, nil
	})
}

func groupOf(g *access.Members) lockapi.Group {
	return lockapi.Group{Name: g.Group, GroupMembers: lockapi.GroupMembers{Members: entries(g.Members)}}
}

// entries makes a nil list an empty one, which JSON shows as [].
func entries(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// PutCellAccess sets the principals that may observe or operate the cell.
func (m *Master) PutCellAccess(_ context.Context, by *Caller, c *lockapi.PutCellAccess) (lockapi.CellAccess, error) {
	rules := access.CellRules{Observe: c.Observe, Operate: c.Operate}
	_, err := m.changeAccess(by, &state.PutCellRules{Rules: rules})
	return cellAccessOf(rules), err
}

// GetCellAccess returns the principals that may observe or operate the cell.
func (m *Master) GetCellAccess(ctx context.Context, q *Read, _ *lockapi.GetCellAccess) (lockapi.CellAccess, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (lockapi.CellAccess, error) {
		return cellAccessOf(s.Policy().Cell()), nil
	})
}

func cellAccessOf(c access.CellRules) lockapi.CellAccess {
	return lockapi.CellAccess{Observe: entries(c.Observe), Operate: entries(c.Operate)}
}

// sumOf returns the SHA-256 of the caller's own secret, if the caller sent its
// sum, or else of a new secret.
func sumOf(given string) (sum []byte, secret string) {
	if given != "" {
		sum, _ = hex.DecodeString(given) // validated before
		return sum, ""
	}
	var random [sha256.Size]byte // 256 bits
	_, _ = rand.Read(random[:])  // never fails
	secret = lockapi.SecretPrefix + hex.EncodeToString(random[:])
	all := sha256.Sum256([]byte(secret))
	return all[:], secret
}

// CreateToken makes a token. Only the answer has its secret. The error is
// conflict if another token has the same secret.
func (m *Master) CreateToken(_ context.Context, by *Caller, c *lockapi.CreateToken) (lockapi.Token, error) {
	t := state.Token{ID: rand.Text(), Principal: c.Principal, Note: c.Note}
	var secret string
	if t.Sum, secret = sumOf(c.TokenSHA256); c.TTLMS > 0 {
		t.ExpiresAt = time.Now().Add(time.Duration(c.TTLMS) * time.Millisecond).UnixNano()
	}
	return tokenMade(secret)(resultOf[state.TokenResult](m.changeAccess(by, &state.AddToken{Token: t})))
}

// EnableAccess turns access checks on and makes a token of the root. The error
// is conflict if access is on already.
func (m *Master) EnableAccess(_ context.Context, by *Caller, c *lockapi.EnableAccess) (lockapi.Token, error) {
	t := state.Token{ID: rand.Text(), Principal: access.Root, Note: "made when access was enabled"}
	var secret string
	t.Sum, secret = sumOf(c.TokenSHA256)
	return tokenMade(secret)(resultOf[state.TokenResult](m.changeAccess(by, &state.EnableAccess{Token: t})))
}

// tokenMade turns the result of a new token into the answer.
func tokenMade(secret string) func(state.TokenResult, error) (lockapi.Token, error) {
	return func(r state.TokenResult, err error) (lockapi.Token, error) {
		switch {
		case err != nil:
			return lockapi.Token{}, err
		case r.Verdict == state.Full:
			return lockapi.Token{}, lockapi.TooMany("tokens", state.MaxTokens, state.MaxTokens, "there are %d tokens, which is the limit; revoke unused ones", state.MaxTokens)
		case r.Verdict == state.Conflict:
			return lockapi.Token{}, lockapi.Errorf(lockapi.CodeConflict, "access is on already, or there is a token with that secret")
		case r.Token == nil:
			return lockapi.Token{}, fmt.Errorf("a token came to %v", r.Verdict)
		}
		out := tokenOf(r.Token)
		out.Secret = secret
		return out, nil
	}
}

func tokenOf(t *state.Token) lockapi.Token {
	out := lockapi.Token{ID: t.ID, Principal: t.Principal, Note: t.Note, CreatedAt: time.Unix(0, t.CreatedAt).UTC()}
	if t.ExpiresAt != 0 {
		out.ExpiresAt = new(time.Unix(0, t.ExpiresAt).UTC())
	}
	return out
}

// ListTokens reads a page of tokens, in the order of their ids, without
// secrets.
func (m *Master) ListTokens(ctx context.Context, q *Read, c *lockapi.ListTokens) (lockapi.TokenList, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (page lockapi.TokenList, err error) {
		page.Tokens, page.Next = pageOf(s.Tokens(c.After), c.Limit, func(t *state.Token) (lockapi.Token, string, int) {
			return tokenOf(t), t.ID, tokenFrame + textSize(t.Principal, t.Note)
		})
		return page, nil
	})
}

// RevokeToken ends a token. Revoking a missing token succeeds.
func (m *Master) RevokeToken(_ context.Context, by *Caller, c *lockapi.RevokeToken) error {
	_, err := m.changeAccess(by, &state.DropToken{ID: c.ID})
	return err
}

// DisableAccess lets every caller do everything. Rules, groups and tokens stay.
func (m *Master) DisableAccess(_ context.Context, by *Caller, _ *lockapi.DisableAccess) error {
	_, err := m.changeAccess(by, &state.DisableAccess{})
	return err
}

// AccessOn reports whether access is on, as far as this replica knows.
func (m *Master) AccessOn() bool { return m.log.State().AccessOn }

// GetWhoAmI returns the caller's principal.
func (m *Master) GetWhoAmI(ctx context.Context, q *Read, c *lockapi.GetWhoAmI) (lockapi.WhoAmI, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (lockapi.WhoAmI, error) {
		who := q.Caller.who().Identity()
		out := lockapi.WhoAmI{Principal: who, How: q.Caller.How}
		if c.Rights {
			out.Observe, out.Operate = !s.AccessOn || s.Policy().Observes(who), !s.AccessOn || s.Policy().Operates(who)
		}
		if out.How == "" {
			out.How = lockapi.HowNone
		}
		return out, nil
	})
}

// ruleSize estimates a rule's size in JSON.
func ruleSize(r *access.Rule) int {
	n := 80 + textSize(r.Path, r.Principal)
	for _, list := range r.Lists {
		n += textSize(list...) + 3*len(list)
	}
	return n
}
