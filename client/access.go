package client

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// Access has the calls that manage rights, for callers that may manage them.
// They are linearizable: a call that begins after the answer to a change is
// decided by the changed rights.
//
// A rule, a group and the cell's lists are each written whole. To change one,
// read it, change it and put it back. No check guards against another caller
// that does the same at that moment.
//
// A change is repeated only if it certainly had no effect; otherwise it returns
// ErrOutcomeUnknown. If it were under way twice, the second could arrive after
// a later change and undo it. After that error, the caller reads the present
// state. Only RevokeToken is repeated, since an id is never reused.
type Access struct{ c *Client }

// Access returns the calls that manage rights.
func (c *Client) Access() Access { return Access{c} }

// WhoAmI returns the principal of this client, as the cell sees it. Every
// caller may ask; ErrUnauthenticated means that the credential is bad.
func (a Access) WhoAmI(ctx context.Context) (out lockapi.WhoAmI, err error) {
	q := call{path: lockapi.RouteWhoAmI, out: &out, check: checking(func(out *lockapi.WhoAmI) string {
		if out.Principal == "" || out.How == "" {
			return "no principal"
		}
		return ""
	})}
	err = a.c.read(ctx, q, nil, nil)
	return out, err
}

// Check returns what a principal may do at a path, and the path of the rule
// that decides it. The principal is user:NAME or anonymous; empty means the
// caller. Asking about another principal requires admin at the path.
func (a Access) Check(ctx context.Context, path, principal string) (out lockapi.AccessCheck, err error) {
	if err := lockapi.ValidateRulePath(path); err != nil {
		return out, err
	}
	query := url.Values{"path": {path}}
	if principal != "" {
		if err := lockapi.ValidatePrincipal(principal); err != nil {
			return out, err
		}
		query.Set("principal", principal)
	}
	q := call{path: lockapi.RouteCheck, out: &out, check: checking(func(out *lockapi.AccessCheck) string {
		if out.Path != path || principal != "" && out.Principal != principal {
			return fmt.Sprintf("what %q may do at %q", lockapi.Clip(out.Principal), lockapi.Clip(out.Path))
		}
		return ""
	})}
	err = a.c.read(ctx, q, query, nil)
	return out, err
}

// Rules yields the rules with paths that begin with prefix, a plain string, in
// bytewise order. It omits rules at which the caller lacks admin. It pages as
// ListLocks does.
func (a Access) Rules(ctx context.Context, prefix string) iter.Seq2[lockapi.AccessRule, error] {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return pages(query, func(q url.Values) ([]lockapi.AccessRule, string, error) {
		var page lockapi.AccessRuleList
		err := a.c.read(ctx, call{path: lockapi.RouteRules, out: &page}, q, nil)
		return page.Rules, page.Next, err
	})
}

// Rule reads the rule at a path, "/" for the root. ErrNotFound means that there
// is no rule at it: the rule above it decides.
func (a Access) Rule(ctx context.Context, path string) (out lockapi.AccessRule, err error) {
	err = a.rule(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// PutRule writes the whole rule of a path. A nil list is inherited from above,
// and an empty list grants the right to no caller. It returns the rule as
// stored.
func (a Access) PutRule(ctx context.Context, path string, lists lockapi.AccessLists) (out lockapi.AccessRule, err error) {
	if err := lists.Validate(); err != nil {
		return out, err
	}
	err = a.rule(ctx, http.MethodPut, path, encode(lists), &out)
	return out, err
}

// DeleteRule removes the rule at a path. It succeeds if there is no such rule.
func (a Access) DeleteRule(ctx context.Context, path string) error {
	if err := lockapi.ValidateRulePath(path); err != nil {
		return err
	}
	return a.drop(ctx, lockapi.RouteRules+path, true)
}

// DeleteRulesBelow removes the rules below a directory in one step. The
// directory ends in a slash: "/app/", or "/" for all rules but the root's. It
// requires admin at the directory and at each rule below it. The rule at the
// directory itself stays.
func (a Access) DeleteRulesBelow(ctx context.Context, dir string) (deleted bool, err error) {
	if dir != "/" {
		if err := lockapi.ValidatePrefix(dir); err != nil {
			return false, err
		}
	}
	var out lockapi.RulesDeleted
	err = a.c.calls.do(ctx, &call{method: http.MethodDelete, path: lockapi.RouteRules, query: url.Values{"prefix": {dir}}.Encode(), once: true, out: &out})
	return out.Deleted, err
}

// rule makes a call that returns a rule.
func (a Access) rule(ctx context.Context, method, path string, body []byte, out *lockapi.AccessRule) error {
	if err := lockapi.ValidateRulePath(path); err != nil {
		return err
	}
	return a.c.calls.do(ctx, &call{method: method, path: lockapi.RouteRules + path, body: body, once: method != http.MethodGet, out: out, check: checking(func(out *lockapi.AccessRule) string {
		if out.Path != path {
			return fmt.Sprintf("the rule at %q", lockapi.Clip(out.Path))
		}
		return ""
	})})
}

// drop makes a call that deletes something.
func (a Access) drop(ctx context.Context, path string, once bool) error {
	return a.c.calls.do(ctx, &call{method: http.MethodDelete, path: path, once: once, status: http.StatusNoContent, settles: isGone})
}

// Groups reads all groups, in the order of their names.
func (a Access) Groups(ctx context.Context) (all []lockapi.Group, err error) {
	query := url.Values{}
	for {
		var page lockapi.GroupList
		if err := a.c.read(ctx, call{path: lockapi.RouteGroups, out: &page}, query, nil); err != nil {
			return nil, err
		}
		if all = append(all, page.Groups...); page.Next == "" {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

// Group reads a group by its name without "group:". The error may be
// ErrNotFound.
func (a Access) Group(ctx context.Context, name string) (out lockapi.Group, err error) {
	err = a.group(ctx, http.MethodGet, name, nil, &out)
	return out, err
}

// PutGroup creates a group or replaces its members: user:NAME and group:NAME. A
// member that leads back to the group is refused (ErrInvalidArgument).
func (a Access) PutGroup(ctx context.Context, name string, members []string) (out lockapi.Group, err error) {
	g := lockapi.GroupMembers{Members: append([]string{}, members...)}
	if err := g.Validate(); err != nil {
		return out, err
	}
	err = a.group(ctx, http.MethodPut, name, encode(g), &out)
	return out, err
}

// DeleteGroup removes a group: rules that name it grant no right through it. It
// succeeds if there is no such group.
func (a Access) DeleteGroup(ctx context.Context, name string) error {
	if err := lockapi.ValidateGroup(name); err != nil {
		return err
	}
	return a.drop(ctx, lockapi.RouteGroups+"/"+name, true)
}

// group makes a call that returns a group.
func (a Access) group(ctx context.Context, method, name string, body []byte, out *lockapi.Group) error {
	if err := lockapi.ValidateGroup(name); err != nil {
		return err
	}
	return a.c.calls.do(ctx, &call{method: method, path: lockapi.RouteGroups + "/" + name, body: body, once: method != http.MethodGet, out: out, check: checking(func(out *lockapi.Group) string {
		if out.Name != name {
			return fmt.Sprintf("the group %q", lockapi.Clip(out.Name))
		}
		return ""
	})})
}

// Quotas yields the quotas of principals and groups, in bytewise order. It pages
// as ListLocks does.
func (a Access) Quotas(ctx context.Context) iter.Seq2[lockapi.Quota, error] {
	return pages(url.Values{}, func(q url.Values) ([]lockapi.Quota, string, error) {
		var page lockapi.QuotaList
		err := a.c.read(ctx, call{path: lockapi.RouteQuotas, out: &page}, q, nil)
		return page.Quotas, page.Next, err
	})
}

// Quota reads the quota of user:NAME, group:NAME, * or anonymous. ErrNotFound
// means that it has none of its own.
func (a Access) Quota(ctx context.Context, of string) (out lockapi.Quota, err error) {
	err = a.quota(ctx, http.MethodGet, of, nil, &out)
	return out, err
}

// PutQuota replaces the quota of user:NAME, group:NAME, * or anonymous, with all
// its limits. What exists stays, however low a limit is.
func (a Access) PutQuota(ctx context.Context, of string, limits lockapi.QuotaLimits) (out lockapi.Quota, err error) {
	if err := limits.Validate(); err != nil {
		return out, err
	}
	err = a.quota(ctx, http.MethodPut, of, encode(limits), &out)
	return out, err
}

// DeleteQuota removes a quota. It succeeds if there is none.
func (a Access) DeleteQuota(ctx context.Context, of string) error {
	if err := lockapi.ValidateQuotaOf(of); err != nil {
		return err
	}
	return a.drop(ctx, lockapi.RouteQuotas+"/"+of, true)
}

// quota makes a call that returns a quota.
func (a Access) quota(ctx context.Context, method, of string, body []byte, out *lockapi.Quota) error {
	if err := lockapi.ValidateQuotaOf(of); err != nil {
		return err
	}
	return a.c.calls.do(ctx, &call{method: method, path: lockapi.RouteQuotas + "/" + of, body: body, once: method != http.MethodGet, out: out, check: checking(func(out *lockapi.Quota) string {
		if out.Principal != of {
			return fmt.Sprintf("the quota of %q", lockapi.Clip(out.Principal))
		}
		return ""
	})})
}

// Cell reads the lists of the cell's observers and operators.
func (a Access) Cell(ctx context.Context) (out lockapi.CellAccess, err error) {
	err = a.c.read(ctx, call{path: lockapi.RouteCellAccess, out: &out}, nil, nil)
	return out, err
}

// PutCell replaces both lists, of the cell's observers and operators. user:root
// is always an operator.
func (a Access) PutCell(ctx context.Context, lists lockapi.CellAccess) (out lockapi.CellAccess, err error) {
	if err := lists.Validate(); err != nil {
		return out, err
	}
	err = a.c.calls.do(ctx, &call{method: http.MethodPut, path: lockapi.RouteCellAccess, body: encode(lists), once: true, out: &out})
	return out, err
}

// NewSecret makes the secret of a token, of 256 random bits, and its SHA-256
// for a TokenRequest or an EnableRequest. A caller that makes the secret
// itself, and stores it before the request, has it even if the answer is lost.
// The secret then travels only as a credential.
func NewSecret() (secret, sha256sum string) {
	var random [sha256.Size]byte
	_, _ = rand.Read(random[:]) // never fails
	secret = lockapi.SecretPrefix + hex.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(secret))
	return secret, hex.EncodeToString(sum[:])
}

// CreateToken makes an access token. Only this answer has its Secret, and only
// if req.TokenSHA256 is empty (see NewSecret). After ErrOutcomeUnknown a token
// may exist that no caller has.
func (a Access) CreateToken(ctx context.Context, req lockapi.TokenRequest) (lockapi.Token, error) {
	if err := req.Validate(); err != nil {
		return lockapi.Token{}, err
	}
	return a.token(ctx, lockapi.RouteTokens, encode(req), req.Principal, req.TokenSHA256 == "")
}

// Enable turns access control on, and makes a token of user:root, as
// CreateToken does. ErrConflict means that it is already on. While it is off,
// every caller on loopback may do this. Others need req.Secret, which is the
// secret of the master if the client reaches it; ErrPermissionDenied names the
// replica. Put the rules first.
func (a Access) Enable(ctx context.Context, req lockapi.EnableRequest) (lockapi.Token, error) {
	if err := req.Validate(); err != nil {
		return lockapi.Token{}, err
	}
	return a.token(ctx, lockapi.RouteEnable, encode(req), lockapi.PrincipalRoot, req.TokenSHA256 == "")
}

// token makes a call that creates a token.
func (a Access) token(ctx context.Context, path string, body []byte, principal string, secret bool) (out lockapi.Token, err error) {
	err = a.c.calls.do(ctx, &call{
		method: http.MethodPost, path: path, body: body, out: &out, once: true, status: http.StatusCreated,
		check: checking(func(out *lockapi.Token) string {
			switch {
			case !isSessionID(out.ID) || out.Principal != principal:
				return fmt.Sprintf("the token %q of %q", lockapi.Clip(out.ID), lockapi.Clip(out.Principal))
			case secret && !strings.HasPrefix(out.Secret, lockapi.SecretPrefix):
				return "a token without its secret"
			}
			return ""
		}),
	})
	return out, err
}

// Tokens yields the tokens, without their secrets, in the order of their ids. It
// pages as ListLocks does.
func (a Access) Tokens(ctx context.Context) iter.Seq2[lockapi.Token, error] {
	return pages(url.Values{}, func(q url.Values) ([]lockapi.Token, string, error) {
		var page lockapi.TokenList
		err := a.c.read(ctx, call{path: lockapi.RouteTokens, out: &page}, q, nil)
		return page.Tokens, page.Next, err
	})
}

// RevokeToken ends a token at once. It succeeds if there is no token with that
// id.
func (a Access) RevokeToken(ctx context.Context, id string) error {
	if !isSessionID(id) {
		return lockapi.Invalid("id", "%q is not the id of a token", lockapi.Clip(id))
	}
	return a.drop(ctx, lockapi.RouteTokens+"/"+id, false)
}

// Disable turns access control off: every caller may do everything. Rules,
// groups and tokens are kept for the next time. It succeeds if access control
// is already off.
func (a Access) Disable(ctx context.Context) error {
	return a.c.calls.do(ctx, &call{method: http.MethodPost, path: lockapi.RouteDisable, body: []byte("{}"), once: true, status: http.StatusNoContent})
}
