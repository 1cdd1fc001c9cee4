package state_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// modelAccess is who may do what, as it was put.
type modelAccess struct {
	on     bool
	cell   access.CellRules
	rules  map[string]access.Rule
	groups map[string][]string
	tokens []*state.Token
}

func newModelAccess() modelAccess {
	return modelAccess{rules: map[string]access.Rule{}, groups: map[string][]string{}}
}

// early reports whether the operation comes before its level.
func (m *model) early(op state.Operation) bool {
	switch op.(type) {
	case *state.PutRule, *state.DropRule, *state.PutGroup, *state.DropGroup, *state.PutCellRules,
		*state.AddToken, *state.DropToken, *state.EnableAccess, *state.DisableAccess, *state.AdoptSession, *state.Expel:
		return m.level < 2
	case *state.PutMember:
		return m.level < 3
	case *state.DropRules:
		return m.level < 4
	}
	return false
}

// takenID reports whether a token is to be added under the id of another one,
// which no master makes.
func (m *model) takenID(op state.Operation) bool {
	var t *state.Token
	switch op := op.(type) {
	case *state.AddToken:
		t = &op.Token
	case *state.EnableAccess:
		if t = &op.Token; m.access.on || m.rootHas(t) {
			return false
		}
	default:
		return false
	}
	return slices.ContainsFunc(m.access.tokens, func(v *state.Token) bool { return v.ID == t.ID })
}

func (m *model) rootHas(t *state.Token) bool {
	was := m.tokenOf(t.Sum)
	return was != nil && was.Principal == "user:root" && was.ExpiresAt == 0
}

func (m *model) tokenOf(sum []byte) *state.Token {
	for _, v := range m.access.tokens {
		if bytes.Equal(v.Sum, sum) {
			return v
		}
	}
	return nil
}

// changeAccess applies one of the operations about access; false for another one.
func (m *model) changeAccess(op state.Operation) (state.Result, bool) {
	a := &m.access
	changeBelow := func(below string, yes bool, do func()) (state.Result, bool) {
		if !yes {
			return state.Nothing, true
		}
		do()
		m.emit(state.AccessChanged{Below: below})
		return state.Done, true
	}
	change := func(yes bool, do func()) (state.Result, bool) { return changeBelow("/", yes, do) }
	switch op := op.(type) {
	case *state.PutRule:
		was, there := a.rules[op.Rule.Path]
		rule := op.Rule
		rule.Principal = was.Principal // which is no difference
		return changeBelow(rule.Path, !there || ruleText(was) != ruleText(rule), func() {
			rule.Principal = m.caller
			a.rules[rule.Path] = rule
		})
	case *state.DropRule:
		_, there := a.rules[op.Path]
		return changeBelow(op.Path, there, func() { delete(a.rules, op.Path) })
	case *state.DropRules:
		var below []string
		for path := range a.rules {
			if path != op.Dir && strings.HasPrefix(path, strings.TrimSuffix(op.Dir, "/")+"/") {
				below = append(below, path)
			}
		}
		return changeBelow(op.Dir, len(below) > 0, func() {
			for _, path := range below {
				delete(a.rules, path)
			}
		})
	case *state.PutGroup:
		was, there := a.groups[op.Group.Group]
		if m.circle(op.Group.Group, op.Group.Members) {
			return state.Circle, true
		}
		return change(!there || !slices.Equal(was, op.Group.Members), func() { a.groups[op.Group.Group] = op.Group.Members })
	case *state.DropGroup:
		_, there := a.groups[op.Group]
		return change(there, func() { delete(a.groups, op.Group) })
	case *state.PutCellRules:
		return change(!a.cell.Same(&op.Rules), func() { a.cell = op.Rules })
	case *state.DisableAccess:
		return change(a.on, func() { a.on = false })
	case *state.DropToken:
		i := slices.IndexFunc(a.tokens, func(t *state.Token) bool { return t.ID == op.ID })
		return change(i >= 0, func() { a.tokens = slices.Delete(slices.Clone(a.tokens), i, i+1) })
	case *state.AddToken:
		return m.addToken(op.Token), true
	case *state.EnableAccess:
		return m.enable(op.Token), true
	case *state.AdoptSession:
		return m.adopt(op), true
	case *state.Expel:
		return m.expel(op), true
	}
	return nil, false
}

// circle reports whether a group would be reached from one of its members.
func (m *model) circle(group string, members []string) bool {
	for todo := slices.Clone(members); len(todo) > 0; todo = todo[1:] {
		name, isGroup := strings.CutPrefix(todo[0], "group:")
		if isGroup && name == group {
			return true
		}
		if isGroup && len(todo) < 1000 {
			todo = append(todo, m.access.groups[name]...)
		}
	}
	return false
}

func (m *model) addToken(t state.Token) state.Result {
	if m.tokenOf(t.Sum) != nil {
		return state.TokenResult{Verdict: state.Conflict}
	}
	t.CreatedAt = m.now
	m.access.tokens = append(slices.Clone(m.access.tokens), &t)
	m.emit(state.AccessChanged{Below: "/"})
	return state.TokenResult{Verdict: state.Done, Token: &t}
}

func (m *model) enable(t state.Token) state.Result {
	if m.access.on {
		return state.TokenResult{Verdict: state.Conflict}
	}
	if m.rootHas(&t) {
		m.access.on = true
		m.emit(state.AccessChanged{Below: "/"})
		return state.TokenResult{Verdict: state.Done, Token: m.tokenOf(t.Sum)}
	}
	r := m.addToken(t)
	m.access.on = r.(state.TokenResult).Verdict == state.Done
	return r
}

func (m *model) adopt(op *state.AdoptSession) state.Result {
	i := slices.IndexFunc(m.sessions, func(v *state.Session) bool { return v.ID == op.Session })
	switch {
	case i < 0:
		return state.NoSession
	case m.sessions[i].Principal == op.Principal:
		return state.Nothing
	case m.sessions[i].Principal != "":
		return state.Conflict
	}
	v := *m.sessions[i]
	v.Principal = op.Principal
	m.sessions = slices.Clone(m.sessions)
	m.sessions[i] = &v
	m.emit(state.SessionAdopted{Session: &v})
	return state.Done
}

func (m *model) expel(op *state.Expel) state.Result {
	_, w := m.claim(op.Session, op.Path, op.Handle)
	if w == nil || w.Seq != op.Seq {
		return state.Nothing
	}
	m.end(w)
	m.handOn(op.Path)
	return state.Done
}

// end ends a wait whose owner may not lock there.
func (m *model) end(w *state.Wait) {
	m.dropWait(w)
	m.seq++
	m.emit(state.Expelled{Wait: w, EventSeq: m.seq})
}

// mayLock reports whether the owner of a wait may lock there: by the nearest rule
// that names the permission.
func (m *model) mayLock(w *state.Wait) bool {
	who := m.session(w.Session).Principal
	if !m.access.on || who == "user:root" || m.listed(m.access.cell.Operate, who) {
		return true
	}
	for path := w.Path; path != ""; path = path[:strings.LastIndexByte(path, '/')] {
		if list, named := m.access.rules[path].Lists[access.Lock]; named {
			return m.listed(list, who)
		}
	}
	return m.listed(m.access.rules["/"].Lists[access.Lock], who)
}

// listed reports whether a list has somebody, also by a group.
func (m *model) listed(list []string, who string) bool {
	if who == "" {
		return slices.Contains(list, "anonymous")
	}
	return slices.Contains(list, "*") || slices.Contains(list, who) ||
		slices.ContainsFunc(list, func(entry string) bool {
			name, isGroup := strings.CutPrefix(entry, "group:")
			return isGroup && m.listed(m.access.groups[name], who)
		})
}

// text is what accessText says of the state.
func (a *modelAccess) text() string {
	s, p := state.New(), access.New().PutCell(a.cell)
	for _, path := range slices.Sorted(maps.Keys(a.rules)) {
		r := a.rules[path]
		p, _ = p.PutRule(&r)
	}
	for _, name := range slices.Sorted(maps.Keys(a.groups)) {
		p, _ = p.PutGroup(&access.Members{Group: name, Members: a.groups[name]})
	}
	s.AccessOn = a.on
	text := policyText(s.AccessOn, p)
	for _, t := range slices.SortedFunc(slices.Values(a.tokens), func(a, b *state.Token) int { return strings.Compare(a.ID, b.ID) }) {
		text += "token " + tokenText(t) + "\n"
	}
	return text
}

// Few names, so that what is about access meets.
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

// changeAccess makes one of the operations about access.
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
		func() state.Operation { return &state.AddToken{Token: drawToken(t)} },
		func() state.Operation { return &state.DropToken{ID: rapid.SampledFrom(someTokens).Draw(t, "token")} },
		func() state.Operation { return &state.DisableAccess{} },
		func() state.Operation {
			op := &state.Expel{}
			op.Session, op.Path, op.Handle = r.aim(t)
			if _, w := r.model.claim(op.Session, op.Path, op.Handle); w != nil {
				op.Seq = w.Seq + rapid.Uint64Range(0, 1).Draw(t, "other")
			}
			return op
		},
		func() state.Operation {
			return &state.AdoptSession{Session: drawSession(t), Principal: rapid.SampledFrom(somePrincipals).Draw(t, "principal")}
		},
	}).Draw(t, "access")()
}

// checkAccess compares all that is kept of access, and finds each token.
func (r *run) checkAccess(t *rapid.T) {
	if got, want := accessText(r.state), r.model.access.text(); got != want {
		t.Fatalf("access is\n%swant\n%s", got, want)
	}
	for _, secret := range someSecrets {
		got, _ := r.state.TokenOf([32]byte(sumOf(secret)))
		equal(t, "token of "+secret, got, r.model.tokenOf(sumOf(secret)))
	}
	if a, b := r.state.TokenCount(), len(r.model.access.tokens); a != b {
		t.Fatalf("%d tokens, want %d", a, b)
	}
	equal(t, "tokens after t1", tokenIDs(slices.Collect(r.state.Tokens("t1"))),
		tokenIDs(slices.DeleteFunc(slices.Clone(r.model.access.tokens), func(v *state.Token) bool { return v.ID <= "t1" })))
}

func tokenIDs(all []*state.Token) []string {
	var ids []string
	for _, t := range all {
		ids = append(ids, t.ID)
	}
	slices.Sort(ids)
	return ids
}
