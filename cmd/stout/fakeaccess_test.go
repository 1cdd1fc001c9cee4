//go:build unix

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// fakeAccess is who may do what. While it is on the fake cell asks for a known
// caller; of the permissions it judges none but operate, for the calls of access
// themselves.
type fakeAccess struct {
	on     bool
	rules  map[string]lockapi.AccessRule
	groups map[string]lockapi.Group
	cell   lockapi.CellAccess
	tokens map[string]*lockapi.Token // by the SHA-256 of their secrets
	serial int
}

// routesOfAccess are the calls about who may do what.
func (c *fakeCell) routesOfAccess() map[string]func(*http.Request) (any, error) {
	a := &c.access
	named := func(r *http.Request) string { return r.PathValue("name") }
	return map[string]func(*http.Request) (any, error){
		"GET /v1/access/whoami": func(r *http.Request) (any, error) {
			who, how := c.caller(r)
			operates := !a.on || who == lockapi.PrincipalRoot || slices.Contains(a.cell.Operate, who)
			return lockapi.WhoAmI{Principal: c.words(who), How: c.words(how), Operate: operates && r.URL.Query().Get("rights") == "true"}, nil
		},
		"GET /v1/access/check": c.getCheck,
		"GET /v1/access/rules": func(r *http.Request) (any, error) {
			out := lockapi.AccessRuleList{Rules: []lockapi.AccessRule{}}
			for _, path := range slices.Sorted(maps.Keys(a.rules)) {
				if strings.HasPrefix(path, r.URL.Query().Get("prefix")) {
					out.Rules = append(out.Rules, a.rules[path])
				}
			}
			return out, nil
		},
		"GET /v1/access/rules/{path...}": func(r *http.Request) (any, error) {
			rule, ok := a.rules[lockPath(r)]
			if !ok {
				return nil, lockapi.Errorf(lockapi.CodeNotFound, "no rule stands at %q; what is above it decides", lockPath(r))
			}
			return rule, nil
		},
		"PUT /v1/access/rules/{path...}": func(r *http.Request) (any, error) {
			rule := lockapi.AccessRule{Path: lockPath(r)}
			if err := decode(r, &rule.AccessLists); err != nil {
				return nil, err
			}
			a.rules[rule.Path] = rule
			return rule, nil
		},
		"DELETE /v1/access/rules": func(r *http.Request) (any, error) {
			before := len(a.rules)
			maps.DeleteFunc(a.rules, func(path string, _ lockapi.AccessRule) bool { return strings.HasPrefix(path, r.FormValue("prefix")) })
			return lockapi.RulesDeleted{Deleted: len(a.rules) < before}, nil
		},
		"DELETE /v1/access/rules/{path...}": func(r *http.Request) (any, error) { delete(a.rules, lockPath(r)); return nil, nil },
		"GET /v1/access/groups": func(*http.Request) (any, error) {
			out := lockapi.GroupList{Groups: []lockapi.Group{}}
			for _, name := range slices.Sorted(maps.Keys(a.groups)) {
				out.Groups = append(out.Groups, a.groups[name])
			}
			return out, nil
		},
		"GET /v1/access/groups/{name}": func(r *http.Request) (any, error) {
			g, ok := a.groups[named(r)]
			if !ok {
				return nil, lockapi.Errorf(lockapi.CodeNotFound, "there is no group %q", named(r))
			}
			return g, nil
		},
		"PUT /v1/access/groups/{name}": func(r *http.Request) (any, error) {
			g := lockapi.Group{Name: named(r)}
			if err := decode(r, &g.GroupMembers); err != nil {
				return nil, err
			}
			a.groups[g.Name] = g
			return g, nil
		},
		"DELETE /v1/access/groups/{name}": func(r *http.Request) (any, error) { delete(a.groups, named(r)); return nil, nil },
		"GET /v1/access/cell":             func(*http.Request) (any, error) { return a.cell, nil },
		"PUT /v1/access/cell":             func(r *http.Request) (any, error) { return &a.cell, decode(r, &a.cell) },
		"POST /v1/access/tokens": func(r *http.Request) (any, error) {
			var req lockapi.TokenRequest
			if err := decode(r, &req); err != nil {
				return nil, err
			}
			return c.addToken(req)
		},
		"GET /v1/access/tokens": func(*http.Request) (any, error) {
			out := lockapi.TokenList{Tokens: []lockapi.Token{}}
			for _, t := range a.tokens {
				out.Tokens = append(out.Tokens, *t)
			}
			slices.SortFunc(out.Tokens, func(x, y lockapi.Token) int { return cmp.Compare(x.ID, y.ID) })
			return out, nil
		},
		"DELETE /v1/access/tokens/{id}": func(r *http.Request) (any, error) {
			maps.DeleteFunc(a.tokens, func(_ string, t *lockapi.Token) bool { return t.ID == r.PathValue("id") })
			return nil, nil
		},
		"POST /v1/access/enable": func(r *http.Request) (any, error) {
			var req lockapi.EnableRequest
			if err := decode(r, &req); err != nil {
				return nil, err
			}
			if a.on {
				return nil, lockapi.Errorf(lockapi.CodeConflict, "access is on already, or there is a token with that secret")
			}
			if c.fault == afar && req.Secret != "5ec2e7" {
				e := lockapi.Errorf(lockapi.CodePermissionDenied, "access is off, and it takes a secret to enable it from an address that is not loopback: the one in the file enable.secret in the data directory of replica r1")
				e.Permission = lockapi.PermissionOperate
				return nil, e
			}
			a.on = c.fault != deaf
			return c.addToken(lockapi.TokenRequest{Principal: lockapi.PrincipalRoot, TokenSHA256: req.TokenSHA256, Note: "made when access was enabled"})
		},
		"POST /v1/access/disable": func(*http.Request) (any, error) { a.on = false; return nil, nil },
	}
}

// words are what the cell may choose.
func (c *fakeCell) words(s string) string {
	if c.fault == evil {
		s += nasty
	}
	return s
}

func (c *fakeCell) addToken(req lockapi.TokenRequest) (any, error) {
	a := &c.access
	if c.fault == deaf {
		return nil, lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the answer got lost")
	}
	a.serial++
	t := &lockapi.Token{ID: fmt.Sprintf("TOKEN%d", a.serial), Principal: req.Principal, Note: req.Note, CreatedAt: time.Now()}
	if req.TTLMS > 0 {
		at := time.Now().Add(time.Duration(req.TTLMS) * time.Millisecond)
		t.ExpiresAt = &at
	}
	a.tokens[strings.ToLower(req.TokenSHA256)] = t
	if c.fault == lossy {
		return nil, lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the answer got lost")
	}
	return *t, nil
}

// caller is who calls, by a token.
func (c *fakeCell) caller(r *http.Request) (who, how string) {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return lockapi.PrincipalAnonymous, lockapi.HowNone
	}
	sum := sha256.Sum256([]byte(secret))
	if t := c.access.tokens[hex.EncodeToString(sum[:])]; t != nil {
		return t.Principal, lockapi.HowToken
	}
	return "", ""
}

// judge says why a caller may not make a call.
func (c *fakeCell) judge(r *http.Request) *lockapi.Error {
	who, _ := c.caller(r)
	open := r.URL.Path == lockapi.RouteWhoAmI
	switch {
	case who == "":
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the token is not one of this cell, or it has ended or expired")
	case !c.access.on || open || who == lockapi.PrincipalRoot || slices.Contains(c.access.cell.Operate, who):
		return nil
	case who == lockapi.PrincipalAnonymous:
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the call brings no credential")
	case strings.HasPrefix(r.URL.Path, lockapi.RouteRules), r.URL.Path == lockapi.RouteCheck:
		return nil
	case strings.HasPrefix(r.URL.Path, "/v1/access/") || r.URL.Path == lockapi.RouteCell:
		e := lockapi.Errorf(lockapi.CodePermissionDenied, "%s may not do this: it takes operate of the cell", who)
		e.Principal, e.Permission = who, lockapi.PermissionOperate
		return e
	}
	return nil
}

func (c *fakeCell) getCheck(r *http.Request) (any, error) {
	q := r.URL.Query()
	out := lockapi.AccessCheck{Principal: q.Get("principal"), Path: q.Get("path")}
	if out.Principal == "" {
		out.Principal, _ = c.caller(r)
	}
	lists := func(l *lockapi.AccessLists) [4][]string { return [4][]string{l.Read, l.Lock, l.Write, l.Admin} }
	for i, v := range []*lockapi.AccessVerdict{&out.Read, &out.Lock, &out.Write, &out.Admin} {
		v.Allowed = out.Principal == lockapi.PrincipalRoot || slices.Contains(c.access.cell.Operate, out.Principal)
		for at := out.Path; !v.Allowed; at = path.Dir(at) {
			if rule, ok := c.access.rules[at]; ok && lists(&rule.AccessLists)[i] != nil {
				v.Rule, v.Allowed = &rule.Path, c.isIn(lists(&rule.AccessLists)[i], out.Principal)
				break
			}
			if at == "/" {
				break
			}
		}
	}
	return out, nil
}

func (c *fakeCell) isIn(list []string, who string) bool {
	return slices.ContainsFunc(list, func(e string) bool {
		name, group := strings.CutPrefix(e, lockapi.PrefixGroup)
		return e == who || e == lockapi.Everybody && who != lockapi.PrincipalAnonymous || group && c.isIn(c.access.groups[name].Members, who)
	})
}
