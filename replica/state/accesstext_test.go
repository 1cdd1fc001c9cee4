package state_test

import (
	"fmt"
	"strings"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// The parsers and text forms of access. parse_test.go and text_test.go have the
// others.
func init() {
	for name, parse := range map[string]func(a *args) state.Operation{
		"put-rule": func(a *args) state.Operation {
			r := access.Rule{Path: a.path()}
			for _, p := range access.Permissions {
				if _, named := a.named[p.String()]; named {
					if r.Lists == nil {
						r.Lists = map[access.Permission][]string{}
					}
					r.Lists[p] = a.list(p.String())
				}
			}
			return &state.PutRule{Rule: r}
		},
		"drop-rule":  func(a *args) state.Operation { return &state.DropRule{Path: a.path()} },
		"drop-rules": func(a *args) state.Operation { return &state.DropRules{Dir: a.path()} },
		"put-group": func(a *args) state.Operation {
			return &state.PutGroup{Group: access.Members{Members: a.list("members"), Group: a.word()}}
		},
		"drop-group": func(a *args) state.Operation { return &state.DropGroup{Group: a.word()} },
		"put-cell-rules": func(a *args) state.Operation {
			return &state.PutCellRules{Rules: access.CellRules{Observe: a.list("observe"), Operate: a.list("operate")}}
		},
		"put-quota":      func(a *args) state.Operation { return &state.PutQuota{Quota: a.quota()} },
		"drop-quota":     func(a *args) state.Operation { return &state.DropQuota{Of: a.word()} },
		"add-token":      func(a *args) state.Operation { return &state.AddToken{Token: a.token()} },
		"drop-token":     func(a *args) state.Operation { return &state.DropToken{ID: a.word()} },
		"enable-access":  func(a *args) state.Operation { return &state.EnableAccess{Token: a.token()} },
		"disable-access": func(*args) state.Operation { return &state.DisableAccess{} },
		"expel": func(a *args) state.Operation {
			return &state.Expel{Path: a.path(), Handle: a.str("h"), Seq: a.unsigned("seq"), Session: a.word()}
		},
		"adopt-session": func(a *args) state.Operation {
			return &state.AdoptSession{Principal: a.str("by"), Session: a.word()}
		},
	} {
		parsers[name] = parse
	}
}

// list returns a list that is separated by commas; "-" is the empty list.
func (a *args) list(name string) []string {
	return strings.FieldsFunc(a.str(name), func(r rune) bool { return r == ',' || r == '-' })
}

// quota reads "OF RESOURCE=N…".
func (a *args) quota() access.Quota {
	q := access.Quota{}
	for _, r := range access.Resources {
		if _, named := a.named[r.String()]; named {
			if q.Limits == nil {
				q.Limits = map[access.Resource]int64{}
			}
			q.Limits[r] = a.num(r.String(), 0)
		}
	}
	q.Of = a.word()
	return q
}

// token reads "ID of=PRINCIPAL secret=WORD note=WORD until=N"; sumOf turns the secret
// into a sum.
func (a *args) token() state.Token {
	return state.Token{Principal: a.str("of"), Sum: sumOf(a.str("secret")), Note: a.str("note"), ExpiresAt: a.num("until", 0), ID: a.word()}
}

// sumOf returns a readable text of the length of a SHA-256.
func sumOf(secret string) []byte {
	if secret == "" {
		return nil
	}
	return []byte(fmt.Sprintf("%-32s", secret))
}

func tokenText(t *state.Token) string {
	return fields(t.ID, "of="+t.Principal, opt("secret", strings.TrimSpace(string(t.Sum))), opt("note", t.Note),
		opt("at", t.CreatedAt), opt("until", t.ExpiresAt))
}

// accessText returns a state's rules, groups, lists and tokens as text.
func accessText(s *state.State) string {
	text := policyText(s.AccessOn, s.Policy())
	for t := range s.Tokens("") {
		text += "token " + tokenText(t) + "\n"
	}
	return text
}

func policyText(on bool, p *access.Policy) string {
	var b strings.Builder
	if on {
		fmt.Fprintln(&b, "access is on")
	}
	if c := p.Cell(); len(c.Observe)+len(c.Operate) > 0 {
		fmt.Fprintln(&b, "cell", "observe", c.Observe, "operate", c.Operate)
	}
	for r := range p.Rules("", "") {
		fmt.Fprintln(&b, ruleText(*r))
	}
	for g := range p.Groups("") {
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprint("group ", g.Group, " ", strings.Join(g.Members, ","))))
	}
	for q := range p.Quotas("") {
		fmt.Fprint(&b, "quota ", q.Of)
		for _, r := range access.Resources {
			if limit, named := q.Limits[r]; named {
				fmt.Fprint(&b, " ", r, "=", limit)
			}
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

func ruleText(r access.Rule) string {
	text := "rule " + r.Path
	for _, p := range access.Permissions {
		if list, named := r.Lists[p]; named {
			text += fmt.Sprint(" ", p, "=", strings.Join(list, ","))
		}
	}
	if r.Principal != "" {
		text += " by=" + r.Principal
	}
	return text
}
