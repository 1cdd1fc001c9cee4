package admin

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

	"github.com/stoutlock/stout/client/internal/bridge"
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
type Access struct{ c bridge.Client }

// Access returns the calls that manage rights.
func (a *Admin) Access() Access { return Access{a.c} }

// WhoAmI returns the principal of this client, as the cell sees it. Every
// caller may ask; ErrUnauthenticated means that the credential is bad.
func (a Access) WhoAmI(ctx context.Context) (lockapi.WhoAmI, error) {
	return do(ctx, a.c, bridge.Call{Path: lockapi.RouteWhoAmI}, func(out *lockapi.WhoAmI) string {
		if out.Principal == "" || out.How == "" {
			return "no principal"
		}
		return ""
	})
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
	return do(ctx, a.c, bridge.Call{Path: lockapi.RouteCheck, Query: query}, func(out *lockapi.AccessCheck) string {
		if out.Path != path || principal != "" && out.Principal != principal {
			return fmt.Sprintf("what %q may do at %q", lockapi.Clip(out.Principal), lockapi.Clip(out.Path))
		}
		return ""
	})
}

// Rules yields the rules with paths that begin with prefix, a plain string, in
// bytewise order. It omits rules at which the caller lacks admin. It pages as
// ListLocks does.
func (a Access) Rules(ctx context.Context, prefix string) iter.Seq2[lockapi.AccessRule, error] {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return list(ctx, a.c, bridge.Call{Path: lockapi.RouteRules, Query: query}, func(page *lockapi.AccessRuleList) ([]lockapi.AccessRule, string) { return page.Rules, page.Next })
}

// Rule reads the rule at a path, "/" for the root. ErrNotFound means that there
// is no rule at it: the rule above it decides.
func (a Access) Rule(ctx context.Context, path string) (lockapi.AccessRule, error) {
	return a.rule(ctx, http.MethodGet, path, nil)
}

// PutRule writes the whole rule of a path. A nil list is inherited from above,
// and an empty list grants the right to no caller. It returns the rule as
// stored.
func (a Access) PutRule(ctx context.Context, path string, lists lockapi.AccessLists) (out lockapi.AccessRule, err error) {
	if err := lists.Validate(); err != nil {
		return out, err
	}
	return a.rule(ctx, http.MethodPut, path, lists)
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
	out, err := do[lockapi.RulesDeleted](ctx, a.c, bridge.Call{Method: http.MethodDelete, Path: lockapi.RouteRules, Query: url.Values{"prefix": {dir}}, NoRetry: true}, nil)
	return out.Deleted, err
}

// rule makes a call that returns a rule.
func (a Access) rule(ctx context.Context, method, path string, body any) (lockapi.AccessRule, error) {
	return whole(ctx, a.c, method, lockapi.RouteRules+path, body, lockapi.ValidateRulePath(path), func(out *lockapi.AccessRule) string { return mismatch("the rule at", out.Path, path) })
}

// whole makes a call that reads or writes an object whole, unless its name is
// invalid.
func whole[T any](ctx context.Context, c bridge.Client, method, path string, body any, invalid error, wrong func(*T) string) (out T, err error) {
	if invalid != nil {
		return out, invalid
	}
	return do(ctx, c, bridge.Call{Method: method, Path: path, Body: body, NoRetry: method != http.MethodGet}, wrong)
}

// drop makes a call that deletes something.
func (a Access) drop(ctx context.Context, path string, once bool) error {
	return a.c.Do(ctx, bridge.Call{Method: http.MethodDelete, Path: path, NoRetry: once, Status: http.StatusNoContent, Settles: isGone})
}

// Groups reads all groups, in the order of their names.
func (a Access) Groups(ctx context.Context) (all []lockapi.Group, err error) {
	query := url.Values{} // this list has no limit
	for {
		page, err := do[lockapi.GroupList](ctx, a.c, bridge.Call{Path: lockapi.RouteGroups, Query: query}, nil)
		if err != nil {
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
func (a Access) Group(ctx context.Context, name string) (lockapi.Group, error) {
	return a.group(ctx, http.MethodGet, name, nil)
}

// PutGroup creates a group or replaces its members: user:NAME and group:NAME. A
// member that leads back to the group is refused (ErrInvalidArgument).
func (a Access) PutGroup(ctx context.Context, name string, members []string) (out lockapi.Group, err error) {
	g := lockapi.GroupMembers{Members: append([]string{}, members...)}
	if err := g.Validate(); err != nil {
		return out, err
	}
	return a.group(ctx, http.MethodPut, name, g)
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
func (a Access) group(ctx context.Context, method, name string, body any) (lockapi.Group, error) {
	return whole(ctx, a.c, method, lockapi.RouteGroups+"/"+name, body, lockapi.ValidateGroup(name), func(out *lockapi.Group) string { return mismatch("the group", out.Name, name) })
}

// Quotas yields the quotas of principals and groups, in bytewise order. It pages
// as ListLocks does.
func (a Access) Quotas(ctx context.Context) iter.Seq2[lockapi.Quota, error] {
	return list(ctx, a.c, bridge.Call{Path: lockapi.RouteQuotas}, func(page *lockapi.QuotaList) ([]lockapi.Quota, string) { return page.Quotas, page.Next })
}

// Quota reads the quota of user:NAME, group:NAME, * or anonymous. ErrNotFound
// means that it has none of its own.
func (a Access) Quota(ctx context.Context, of string) (lockapi.Quota, error) {
	return a.quota(ctx, http.MethodGet, of, nil)
}

// PutQuota replaces the quota of user:NAME, group:NAME, * or anonymous, with all
// its limits. A low limit removes nothing that exists.
func (a Access) PutQuota(ctx context.Context, of string, limits lockapi.QuotaLimits) (out lockapi.Quota, err error) {
	if err := limits.Validate(); err != nil {
		return out, err
	}
	return a.quota(ctx, http.MethodPut, of, limits)
}

// DeleteQuota removes a quota. It succeeds if there is no such quota.
func (a Access) DeleteQuota(ctx context.Context, of string) error {
	if err := lockapi.ValidateQuotaOf(of); err != nil {
		return err
	}
	return a.drop(ctx, lockapi.RouteQuotas+"/"+of, true)
}

// quota makes a call that returns a quota.
func (a Access) quota(ctx context.Context, method, of string, body any) (lockapi.Quota, error) {
	return whole(ctx, a.c, method, lockapi.RouteQuotas+"/"+of, body, lockapi.ValidateQuotaOf(of), func(out *lockapi.Quota) string { return mismatch("the quota of", out.Principal, of) })
}

// Cell reads the lists of the cell's observers and operators.
func (a Access) Cell(ctx context.Context) (lockapi.CellAccess, error) {
	return do[lockapi.CellAccess](ctx, a.c, bridge.Call{Path: lockapi.RouteCellAccess}, nil)
}

// PutCell replaces both lists, of the cell's observers and operators. user:root
// is always an operator.
func (a Access) PutCell(ctx context.Context, lists lockapi.CellAccess) (out lockapi.CellAccess, err error) {
	if err := lists.Validate(); err != nil {
		return out, err
	}
	return do[lockapi.CellAccess](ctx, a.c, bridge.Call{Method: http.MethodPut, Path: lockapi.RouteCellAccess, Body: lists, NoRetry: true}, nil)
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
	return a.token(ctx, lockapi.RouteTokens, req, req.Principal, req.TokenSHA256 == "")
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
	return a.token(ctx, lockapi.RouteEnable, req, lockapi.PrincipalRoot, req.TokenSHA256 == "")
}

// token makes a call that creates a token.
func (a Access) token(ctx context.Context, path string, body any, principal string, secret bool) (lockapi.Token, error) {
	q := bridge.Call{Method: http.MethodPost, Path: path, Body: body, NoRetry: true, Status: http.StatusCreated}
	return do(ctx, a.c, q, func(out *lockapi.Token) string {
		switch {
		case !bridge.IsID(out.ID) || out.Principal != principal:
			return fmt.Sprintf("the token %q of %q", lockapi.Clip(out.ID), lockapi.Clip(out.Principal))
		case secret && !strings.HasPrefix(out.Secret, lockapi.SecretPrefix):
			return "a token without its secret"
		}
		return ""
	})
}

// Tokens yields the tokens, without their secrets, in the order of their ids. It
// pages as ListLocks does.
func (a Access) Tokens(ctx context.Context) iter.Seq2[lockapi.Token, error] {
	return list(ctx, a.c, bridge.Call{Path: lockapi.RouteTokens}, func(page *lockapi.TokenList) ([]lockapi.Token, string) { return page.Tokens, page.Next })
}

// RevokeToken ends a token at once. It succeeds if there is no token with that
// id.
func (a Access) RevokeToken(ctx context.Context, id string) error {
	if !bridge.IsID(id) {
		return lockapi.Invalid("id", "%q is not the id of a token", lockapi.Clip(id))
	}
	return a.drop(ctx, lockapi.RouteTokens+"/"+id, false)
}

// Disable turns access control off: every caller may do everything. Rules,
// groups and tokens are kept for the next time. It succeeds if access control
// is already off.
func (a Access) Disable(ctx context.Context) error {
	return a.c.Do(ctx, bridge.Call{Method: http.MethodPost, Path: lockapi.RouteDisable, Body: struct{}{}, NoRetry: true, Status: http.StatusNoContent})
}
