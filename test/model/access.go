package model

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// Access is the state of access control: rules, groups, quotas and tokens. It is
// immutable.
type Access struct {
	On     bool
	Cell   access.CellRules
	Rules  map[string]*access.Rule
	Groups map[string][]string
	Quotas map[string]*access.Quota
	Tokens []*state.Token
}

// Token returns the token with that checksum, or nil.
func (a *Access) Token(sum []byte) *state.Token {
	for _, t := range a.Tokens {
		if bytes.Equal(t.Sum, sum) {
			return t
		}
	}
	return nil
}

// May reports whether a principal has a permission at a path. The principal ""
// is anonymous.
func (a *Access) May(who string, p access.Permission, path string) bool {
	allowed, _ := a.Decide(who, p, path)
	return allowed
}

// Decide is May, with the path of the deciding rule: the nearest one that names
// the permission. The path is empty if no rule does.
func (a *Access) Decide(who string, p access.Permission, path string) (allowed bool, rule string) {
	if !a.On || a.Operates(who) {
		return true, ""
	}
	for at := path; ; at = at[:strings.LastIndexByte(at, '/')] {
		if at == "" {
			at = "/"
		}
		if rule := a.Rules[at]; rule != nil {
			if list, named := rule.Lists[p]; named {
				return a.Lists(list, who), at
			}
		}
		if at == "/" {
			return false, ""
		}
	}
}

// Operates reports whether a principal may do everything.
func (a *Access) Operates(who string) bool { return who == "user:root" || a.Lists(a.Cell.Operate, who) }

// Lists reports whether a list names a principal, also by a group.
func (a *Access) Lists(list []string, who string) bool {
	if who == "" || who == "anonymous" {
		return slices.Contains(list, "anonymous")
	}
	return slices.Contains(list, "*") || slices.Contains(list, who) ||
		slices.ContainsFunc(list, func(entry string) bool {
			name, isGroup := strings.CutPrefix(entry, "group:")
			return isGroup && a.Lists(a.Groups[name], who)
		})
}

// Below returns the paths of the rules below a directory.
func (a *Access) Below(dir string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.Rules)), func(path string) bool {
		return path == dir || !strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
	})
}

// Cycle reports whether a group is among members, or below one of them.
func (a *Access) Cycle(group string, members []string) bool {
	return slices.ContainsFunc(members, func(m string) bool {
		name, isGroup := strings.CutPrefix(m, "group:")
		return isGroup && (name == group || a.Cycle(group, a.Groups[name]))
	})
}

// rootHas reports whether a token already exists as a token of root's without
// expiry.
func (a *Access) rootHas(t *state.Token) bool {
	was := a.Token(t.Sum)
	return was != nil && was.Principal == "user:root" && was.ExpiresAt == 0
}

// early reports whether the cell's level is too low for the operation.
func (m *Model) early(op state.Operation) bool {
	switch op.(type) {
	case *state.PutRule, *state.DropRule, *state.PutGroup, *state.DropGroup, *state.PutCellRules,
		*state.AddToken, *state.DropToken, *state.EnableAccess, *state.DisableAccess, *state.AdoptSession, *state.Expel:
		return m.Level < 2
	case *state.PutMember:
		return m.Level < 3
	case *state.DropRules:
		return m.Level < 4
	case *state.PutQuota, *state.DropQuota:
		return m.Level < 6
	case *state.ChangeKeys:
		return m.Level < 7
	}
	return false
}

// usedID reports whether a token is to be added under the id of another one. A
// master never proposes that.
func (m *Model) usedID(op state.Operation) bool {
	var t *state.Token
	switch op := op.(type) {
	case *state.AddToken:
		t = &op.Token
	case *state.EnableAccess:
		if t = &op.Token; m.Access.On || m.Access.rootHas(t) {
			return false
		}
	default:
		return false
	}
	return slices.ContainsFunc(m.Access.Tokens, func(v *state.Token) bool { return v.ID == t.ID })
}

// changeAccess applies an operation about access. It returns false for any
// other.
func (m *Model) changeAccess(op state.Operation) (state.Result, bool) {
	a := *m.Access
	a.Rules, a.Groups, a.Quotas = maps.Clone(a.Rules), maps.Clone(a.Groups), maps.Clone(a.Quotas)
	if a.Rules == nil {
		a.Rules, a.Groups, a.Quotas = map[string]*access.Rule{}, map[string][]string{}, map[string]*access.Quota{}
	}
	changes, below := false, "/"
	switch op := op.(type) {
	case *state.PutRule:
		was, rule := a.Rules[op.Rule.Path], op.Rule
		changes = was == nil || !maps.EqualFunc(was.Lists, rule.Lists, slices.Equal[[]string])
		below, rule.Principal = rule.Path, m.caller
		a.Rules[rule.Path] = &rule
	case *state.DropRule:
		changes, below = a.Rules[op.Path] != nil, op.Path
		delete(a.Rules, op.Path)
	case *state.DropRules:
		all := a.Below(op.Dir)
		changes, below = len(all) > 0, op.Dir
		for _, path := range all {
			delete(a.Rules, path)
		}
	case *state.PutGroup:
		if a.Cycle(op.Group.Group, op.Group.Members) {
			return state.Cycle, true
		}
		was, there := a.Groups[op.Group.Group]
		changes = !there || !slices.Equal(was, op.Group.Members)
		a.Groups[op.Group.Group] = op.Group.Members
	case *state.DropGroup:
		_, changes = a.Groups[op.Group]
		delete(a.Groups, op.Group)
	case *state.PutCellRules:
		changes, a.Cell = !a.Cell.Same(&op.Rules), op.Rules
	case *state.DisableAccess:
		changes, a.On = a.On, false
	case *state.DropToken:
		a.Tokens = slices.DeleteFunc(slices.Clone(a.Tokens), func(t *state.Token) bool { return t.ID == op.ID })
		changes = len(a.Tokens) < len(m.Access.Tokens)
	case *state.PutQuota:
		was := a.Quotas[op.Quota.Of]
		a.Quotas[op.Quota.Of] = &op.Quota
		return m.putQuotas(a, op.Quota.Of, was == nil || !maps.Equal(was.Limits, op.Quota.Limits)), true
	case *state.DropQuota:
		was := a.Quotas[op.Of]
		delete(a.Quotas, op.Of)
		return m.putQuotas(a, op.Of, was != nil), true
	case *state.AddToken:
		return m.addToken(a, op.Token), true
	case *state.EnableAccess:
		return m.enable(a, op.Token), true
	case *state.AdoptSession:
		return m.adopt(op), true
	case *state.Expel:
		return m.expel(op), true
	default:
		return nil, false
	}
	if !changes {
		return state.Nothing, true
	}
	m.putAccess(a, below)
	return state.Done, true
}

func (m *Model) putAccess(a Access, below string) {
	m.Access = &a
	m.emit(state.AccessChanged{Below: below})
}

// putQuotas sets the quotas if that changes one.
func (m *Model) putQuotas(a Access, of string, changes bool) state.Result {
	if !changes {
		return state.Nothing
	}
	m.Access = &a
	m.emit(state.QuotaChanged{Of: of})
	return state.Done
}

func (m *Model) addToken(a Access, t state.Token) state.Result {
	if a.Token(t.Sum) != nil {
		return state.TokenResult{Verdict: state.Conflict}
	}
	t.CreatedAt = m.Now
	a.Tokens = append(slices.Clone(a.Tokens), &t)
	m.putAccess(a, "/")
	return state.TokenResult{Verdict: state.Done, Token: &t}
}

func (m *Model) enable(a Access, t state.Token) state.Result {
	if a.On {
		return state.TokenResult{Verdict: state.Conflict}
	}
	if a.On = true; !a.rootHas(&t) {
		return m.addToken(a, t)
	}
	m.putAccess(a, "/")
	return state.TokenResult{Verdict: state.Done, Token: a.Token(t.Sum)}
}

func (m *Model) adopt(op *state.AdoptSession) state.Result {
	i := slices.IndexFunc(m.Sessions, func(v *state.Session) bool { return v.ID == op.Session })
	switch {
	case i < 0:
		return state.NoSession
	case m.Sessions[i].Principal == op.Principal:
		return state.Nothing
	case m.Sessions[i].Principal != "":
		return state.Conflict
	}
	v := *m.Sessions[i]
	v.Principal = op.Principal
	m.Sessions = slices.Clone(m.Sessions)
	m.Sessions[i] = &v
	m.emit(state.SessionAdopted{Session: &v})
	return state.Done
}

func (m *Model) expel(op *state.Expel) state.Result {
	_, w := m.HoldOrWait(op.Session, op.Path, op.Handle)
	if w == nil || w.Seq != op.Seq {
		return state.Nothing
	}
	m.end(w)
	m.handOnAll(w)
	return state.Done
}

// end removes a wait, as its owner may not lock there.
func (m *Model) end(w *state.Wait) {
	m.dropWaits(w)
	m.Seq++
	m.emit(state.Expelled{Wait: w, EventSeq: m.Seq})
}

// mayLock reports whether the owner of a wait may lock there.
func (m *Model) mayLock(w *state.Wait) bool {
	return m.Access.May(m.Session(w.Session).Principal, access.Lock, w.Path)
}
