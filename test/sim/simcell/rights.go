package simcell

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// rights are who may do what after an entry, as the judge makes it out of the
// committed log by itself and in the plainest way: neither the state's policy
// nor its tokens are looked at. They are immutable.
type rights struct {
	on     bool
	cell   access.CellRules
	rules  map[string]*access.Rule
	groups map[string][]string
	tokens map[string]*state.Token // by the sum of the secret
	owners map[string]string       // of the sessions that live: the principal, or ""
}

// copy is for changes.
func (r *rights) copy() *rights {
	return &rights{on: r.on, cell: r.cell, rules: maps.Clone(r.rules), groups: maps.Clone(r.groups), tokens: maps.Clone(r.tokens), owners: maps.Clone(r.owners)}
}

// after are the rights that an entry leads to, by the steps of its commands: the
// last are those after it. wrong says what is wrong with what its commands came to.
func (r *rights) after(b state.Batch, out state.Outcome) (steps []*rights, wrong string) {
	if !out.Accepted {
		return []*rights{r}, ""
	}
	for i, c := range b.Commands {
		if !changesRights(c.Operation) {
			continue
		}
		r = r.copy()
		steps = append(steps, r)
		if why := r.do(c, out.Results[i]); why != "" {
			wrong = why
		}
	}
	for _, c := range out.Changes {
		if e, ok := c.(state.SessionEnded); ok {
			r = r.copy()
			delete(r.owners, e.Session.ID)
		}
	}
	return append(steps, r), wrong
}

// changesRights reports whether an operation is one about rights, or about whose a
// session is.
func changesRights(op state.Operation) bool {
	switch op.(type) {
	case *state.PutRule, *state.DropRule, *state.DropRules, *state.PutGroup, *state.DropGroup, *state.PutCellRules, *state.AddToken, *state.DropToken,
		*state.EnableAccess, *state.DisableAccess, *state.OpenSession, *state.AdoptSession:
		return true
	}
	return false
}

// do does one command that came to a result, and says what is wrong with that.
func (r *rights) do(c state.Command, came state.Result) (wrong string) {
	done := came == state.Done
	switch op := c.Operation.(type) {
	case *state.PutRule:
		if done {
			r.rules[op.Rule.Path] = &op.Rule
		}
	case *state.DropRule:
		if done {
			delete(r.rules, op.Path)
		}
	case *state.DropRules:
		for _, path := range r.below(op.Dir) {
			if done {
				delete(r.rules, path)
			}
		}
	case *state.PutGroup:
		if circle := r.leadsTo(op.Group.Members, op.Group.Group); circle != (came == state.Circle) {
			return "group " + op.Group.Group + " has a circle, or has none, and that was not seen"
		}
		if done {
			r.groups[op.Group.Group] = op.Group.Members
		}
	case *state.DropGroup:
		if done {
			delete(r.groups, op.Group)
		}
	case *state.PutCellRules:
		if done {
			r.cell = op.Rules
		}
	case *state.AddToken:
		r.give(&op.Token, came)
	case *state.DropToken:
		maps.DeleteFunc(r.tokens, func(_ string, t *state.Token) bool { return done && t.ID == op.ID })
	case *state.EnableAccess:
		r.on = r.give(&op.Token, came) || r.on
	case *state.DisableAccess:
		r.on = r.on && !done
	case *state.OpenSession:
		if v, ok := came.(state.SessionResult); ok && v.Session != nil && v.Session.ID == op.Session {
			r.owners[op.Session] = c.Caller
		}
	case *state.AdoptSession:
		if done {
			r.owners[op.Session] = op.Principal
		}
	}
	return ""
}

// below lists the rules below a path.
func (r *rights) below(dir string) (paths []string) {
	for path := range r.rules {
		if strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") && path != dir {
			paths = append(paths, path)
		}
	}
	return paths
}

// give adds a token, and reports whether that was done.
func (r *rights) give(t *state.Token, came state.Result) bool {
	v, _ := came.(state.TokenResult)
	if v.Verdict != state.Done {
		return false
	}
	if sum := hex.EncodeToString(t.Sum); r.tokens[sum] == nil {
		r.tokens[sum] = t
	}
	return true
}

// leadsTo reports whether a group is among members, or below one of them.
func (r *rights) leadsTo(members []string, group string) bool {
	for _, m := range members {
		name, isGroup := strings.CutPrefix(m, lockapi.PrefixGroup)
		if isGroup && (name == group || r.leadsTo(r.groups[name], group)) {
			return true
		}
	}
	return false
}

// has reports whether a list names somebody.
func (r *rights) has(list []string, who string) bool {
	if who == "" {
		return slices.Contains(list, lockapi.PrincipalAnonymous)
	}
	return slices.ContainsFunc(list, func(entry string) bool {
		name, isGroup := strings.CutPrefix(entry, lockapi.PrefixGroup)
		return entry == who || entry == lockapi.Everybody || isGroup && r.has(r.groups[name], who)
	})
}

func (r *rights) operates(who string) bool {
	return who == lockapi.PrincipalRoot || r.has(r.cell.Operate, who)
}

// may reports whether somebody has a permission at a path: the nearest rule that
// names it decides.
func (r *rights) may(who string, p access.Permission, path string) bool {
	if !r.on || r.operates(who) {
		return true
	}
	for at := path; ; at = at[:strings.LastIndexByte(at, '/')] {
		if at == "" {
			at = "/"
		}
		if rule := r.rules[at]; rule != nil {
			if list, named := rule.Lists[p]; named {
				return r.has(list, who)
			}
		}
		if at == "/" {
			return false
		}
	}
}

// need is a permission at a path.
type need struct {
	permission access.Permission
	path       string
}

// plea is one call, and what its caller has to have for it.
type plea struct {
	who     string
	sum     string // of the token that it brings; empty without one
	floor   uint64 // it came when the effect of that entry had been told
	began   int64  // wall clock, nanoseconds
	needs   []need
	known   bool   // only somebody known may make it
	session string // on whose behalf it is made; it has to be the caller's own
	lists   string // the prefix of what it lists or watches: a caller without a name needs read there
	looks   bool   // it lists or watches
}

// answer is what the call has to be told by those rights, if that is decided at
// a time: nothing, unauthenticated or permission_denied.
func (r *rights) answer(p *plea, at int64) lockapi.Code {
	who, genuine := r.principal(p.sum, at)
	if !genuine {
		return lockapi.CodeUnauthenticated
	}
	if !r.on {
		return ""
	}
	owner, lives := r.owners[p.session]
	fine := (who != "" || !p.known && p.session == "") && (!lives || owner == "" || owner == who)
	if p.looks && who == "" {
		fine = fine && r.may(who, access.Read, cmp.Or(strings.TrimSuffix(p.lists, "/"), "/"))
	}
	for _, n := range p.needs {
		fine = fine && r.may(who, n.permission, n.path)
	}
	switch {
	case fine:
		return ""
	case who == "":
		return lockapi.CodeUnauthenticated
	}
	return lockapi.CodePermissionDenied
}

// principal is whose token has that sum at a time; false where it is nobody's.
func (r *rights) principal(sum string, at int64) (who string, genuine bool) {
	if sum == "" {
		return "", true
	}
	t := r.tokens[sum]
	if t == nil || t.ExpiresAt != 0 && at >= t.ExpiresAt {
		return "", false
	}
	return t.Principal, true
}
