package admin_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/lockapi"
)

// accessCalls returns all calls, each with its answer and the request that it
// sends.
func accessCalls(t *testing.T, c *admin.Admin) map[string]struct {
	call   func() (any, error)
	status int
	answer any
	asked  string
} {
	ctx, a := t.Context(), c.Access()
	rule := lockapi.AccessRule{Path: "/a b", AccessLists: lockapi.AccessLists{Read: []string{"*"}, Lock: []string{}}}
	group := lockapi.Group{Name: "o ps", GroupMembers: lockapi.GroupMembers{Members: []string{"user:a"}}}
	cell := lockapi.CellAccess{Observe: []string{"*"}, Operate: []string{"group:ops"}}
	token := lockapi.Token{ID: "T1", Secret: "stout_x", Principal: "user:b", Note: "n", CreatedAt: time.Unix(1, 0).UTC()}
	root := token
	root.Principal = lockapi.PrincipalRoot
	rule0 := "/"
	quota := lockapi.Quota{Principal: "user:spiffe://a b/c", QuotaLimits: lockapi.QuotaLimits{Files: new(int64), CallsPerSecond: new(int64(5))}}
	check := lockapi.AccessCheck{Principal: "user:b", Path: "/a", Read: lockapi.AccessVerdict{Allowed: true, Rule: &rule0}}
	none := func(err error) (any, error) { return nil, err }
	first := func() (any, error) {
		for r, err := range a.Rules(ctx, "/a") {
			return r, err
		}
		return nil, nil
	}
	tokens := func() (any, error) {
		for one, err := range a.Tokens(ctx) {
			return one, err
		}
		return nil, nil
	}
	quotas := func() (any, error) {
		for one, err := range a.Quotas(ctx) {
			return one, err
		}
		return nil, nil
	}
	type row = struct {
		call   func() (any, error)
		status int
		answer any
		asked  string
	}
	return map[string]row{
		"WhoAmI": {func() (any, error) { return a.WhoAmI(ctx) }, 200, lockapi.WhoAmI{Principal: "user:b", How: "token"}, "GET /v1/access/whoami"},
		"Check":  {func() (any, error) { return a.Check(ctx, "/a", "user:b") }, 200, check, "GET /v1/access/check?path=%2Fa&principal=user%3Ab"},
		"own":    {func() (any, error) { return a.Check(ctx, "/a", "") }, 200, check, "GET /v1/access/check?path=%2Fa"},
		"Rules":  {first, 200, lockapi.AccessRuleList{Rules: []lockapi.AccessRule{rule}}, "GET /v1/access/rules?limit=1000&prefix=%2Fa"},
		"Rule":   {func() (any, error) { return a.Rule(ctx, "/a b") }, 200, rule, "GET /v1/access/rules/a%20b"},
		"PutRule": {func() (any, error) { return a.PutRule(ctx, "/a b", rule.AccessLists) }, 200, rule,
			`PUT /v1/access/rules/a%20b {"read":["*"],"lock":[]}`},
		"root": {func() (any, error) { return a.PutRule(ctx, "/", lockapi.AccessLists{}) }, 200, lockapi.AccessRule{Path: "/"},
			`PUT /v1/access/rules/ {}`},
		"DeleteRule":  {func() (any, error) { return none(a.DeleteRule(ctx, "/a b")) }, 204, nil, "DELETE /v1/access/rules/a%20b"},
		"Groups":      {func() (any, error) { return a.Groups(ctx) }, 200, lockapi.GroupList{Groups: []lockapi.Group{group}}, "GET /v1/access/groups"},
		"Group":       {func() (any, error) { return a.Group(ctx, "o ps") }, 200, group, "GET /v1/access/groups/o%20ps"},
		"PutGroup":    {func() (any, error) { return a.PutGroup(ctx, "o ps", group.Members) }, 200, group, `PUT /v1/access/groups/o%20ps {"members":["user:a"]}`},
		"DeleteGroup": {func() (any, error) { return none(a.DeleteGroup(ctx, "o ps")) }, 204, nil, "DELETE /v1/access/groups/o%20ps"},
		"Quotas":      {quotas, 200, lockapi.QuotaList{Quotas: []lockapi.Quota{quota}}, "GET /v1/access/quotas?limit=1000"},
		"Quota":       {func() (any, error) { return a.Quota(ctx, quota.Principal) }, 200, quota, "GET /v1/access/quotas/user:spiffe://a%20b/c"},
		"PutQuota": {func() (any, error) { return a.PutQuota(ctx, quota.Principal, quota.QuotaLimits) }, 200, quota,
			`PUT /v1/access/quotas/user:spiffe://a%20b/c {"files":0,"calls_per_second":5}`},
		"DeleteQuota": {func() (any, error) { return none(a.DeleteQuota(ctx, "*")) }, 204, nil, "DELETE /v1/access/quotas/%2A"},
		"Cell":        {func() (any, error) { return a.Cell(ctx) }, 200, cell, "GET /v1/access/cell"},
		"PutCell": {func() (any, error) { return a.PutCell(ctx, cell) }, 200, cell,
			`PUT /v1/access/cell {"observe":["*"],"operate":["group:ops"]}`},
		"CreateToken": {func() (any, error) {
			return a.CreateToken(ctx, lockapi.TokenRequest{Principal: "user:b", TTLMS: 5, Note: "n"})
		}, 201, token,
			`POST /v1/access/tokens {"principal":"user:b","ttl_ms":5,"note":"n","token_sha256":""}`},
		"Tokens":      {tokens, 200, lockapi.TokenList{Tokens: []lockapi.Token{token}}, "GET /v1/access/tokens?limit=1000"},
		"RevokeToken": {func() (any, error) { return none(a.RevokeToken(ctx, "T1")) }, 204, nil, "DELETE /v1/access/tokens/T1"},
		"Enable":      {func() (any, error) { return a.Enable(ctx, lockapi.EnableRequest{}) }, 201, root, `POST /v1/access/enable {"token_sha256":""}`},
		"Disable":     {func() (any, error) { return none(a.Disable(ctx)) }, 204, nil, `POST /v1/access/disable {}`},
	}
}

func TestAccess(t *testing.T) {
	a := new(scripted)
	c := adminOf(t, a)
	for name, row := range accessCalls(t, c) {
		a.always(row.status, row.answer)
		a.asked = nil
		want := row.answer
		switch list := want.(type) {
		case lockapi.AccessRuleList:
			want = list.Rules[0]
		case lockapi.GroupList:
			want = list.Groups
		case lockapi.TokenList:
			want = list.Tokens[0]
		case lockapi.QuotaList:
			want = list.Quotas[0]
		}
		if got, err := row.call(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
		if len(a.asked) != 1 || a.asked[0] != row.asked {
			t.Errorf("%s: sent\n%q, want\n%q", name, a.asked, row.asked)
		}
		a.always(403, lockapi.Errorf(lockapi.CodePermissionDenied, "no"))
		if _, err := row.call(); !errors.Is(err, client.ErrPermissionDenied) {
			t.Errorf("%s, denied: %v", name, err)
		}
	}
}

// The client rejects an answer that is about something else.
func TestAccessLies(t *testing.T) {
	a := new(scripted)
	c := adminOf(t, a)
	for name, lie := range map[string]any{
		"WhoAmI": lockapi.WhoAmI{}, "Check": lockapi.AccessCheck{Principal: "user:x", Path: "/a"}, "own": lockapi.AccessCheck{Principal: "user:b", Path: "/b"},
		"Rule": lockapi.AccessRule{Path: "/b"}, "PutRule": lockapi.AccessRule{}, "Group": lockapi.Group{Name: "x"}, "PutGroup": lockapi.Group{Name: "x"},
		"Quota": lockapi.Quota{Principal: "user:x"}, "PutQuota": lockapi.Quota{},
		"CreateToken": lockapi.Token{ID: "T1", Principal: "user:b"}, "Enable": lockapi.Token{ID: "T1", Secret: "stout_x", Principal: "user:b"},
	} {
		row := accessCalls(t, c)[name]
		a.always(row.status, lie)
		if got, err := row.call(); !errors.Is(err, client.ErrInternal) {
			t.Errorf("%s accepts %+v: %+v, %v", name, lie, got, err)
		}
	}
}

// Requests with bad arguments are not sent.
func TestAccessBadArguments(t *testing.T) {
	a := new(scripted)
	c := adminOf(t, a)
	ctx, x := t.Context(), c.Access()
	for name, err := range map[string]error{
		"rule's path":      x.DeleteRule(ctx, "a"),
		"rule's entry":     second(x.PutRule(ctx, "/a", lockapi.AccessLists{Read: []string{"bob"}})),
		"rule to read":     second(x.Rule(ctx, "/a/")),
		"checked path":     second(x.Check(ctx, "a", "")),
		"checked":          second(x.Check(ctx, "/a", "group:x")),
		"group":            x.DeleteGroup(ctx, "a/b"),
		"group to read":    second(x.Group(ctx, "..")),
		"members":          second(x.PutGroup(ctx, "g", []string{"*"})),
		"operators":        second(x.PutCell(ctx, lockapi.CellAccess{Operate: []string{"x"}})),
		"quota":            x.DeleteQuota(ctx, "a"),
		"quota to read":    second(x.Quota(ctx, "user:")),
		"limits":           second(x.PutQuota(ctx, "*", lockapi.QuotaLimits{Burst: new(int64)})),
		"token's owner":    second(x.CreateToken(ctx, lockapi.TokenRequest{Principal: "group:x"})),
		"sum":              second(x.Enable(ctx, lockapi.EnableRequest{TokenSHA256: "12"})),
		"token's id":       x.RevokeToken(ctx, "a/b"),
		"token's empty id": x.RevokeToken(ctx, ""),
	} {
		if !errors.Is(err, client.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(a.asked) > 0 {
		t.Errorf("requests %q were sent", a.asked)
	}
}

// A change of access is not sent again after its answer got lost: a second
// arrival could undo a later change. Reads and revocations of tokens are sent
// again.
func TestAccessChangesAreSentOnce(t *testing.T) {
	for _, one := range []struct {
		name string
		once bool
		call func(context.Context, admin.Access) error
	}{
		{"PutRule", true, func(ctx context.Context, a admin.Access) error {
			return second(a.PutRule(ctx, "/a", lockapi.AccessLists{}))
		}},
		{"DeleteRule", true, func(ctx context.Context, a admin.Access) error { return a.DeleteRule(ctx, "/a") }},
		{"PutGroup", true, func(ctx context.Context, a admin.Access) error { return second(a.PutGroup(ctx, "g", nil)) }},
		{"DeleteGroup", true, func(ctx context.Context, a admin.Access) error { return a.DeleteGroup(ctx, "g") }},
		{"PutCell", true, func(ctx context.Context, a admin.Access) error { return second(a.PutCell(ctx, lockapi.CellAccess{})) }},
		{"CreateToken", true, func(ctx context.Context, a admin.Access) error {
			return second(a.CreateToken(ctx, lockapi.TokenRequest{Principal: "user:b"}))
		}},
		{"Enable", true, func(ctx context.Context, a admin.Access) error {
			return second(a.Enable(ctx, lockapi.EnableRequest{}))
		}},
		{"Disable", true, func(ctx context.Context, a admin.Access) error { return a.Disable(ctx) }},
		{"RevokeToken", false, func(ctx context.Context, a admin.Access) error { return a.RevokeToken(ctx, "T1") }},
		{"WhoAmI", false, func(ctx context.Context, a admin.Access) error { return second(a.WhoAmI(ctx)) }},
	} {
		bubble(t, func(t *testing.T, _ *stouttest.Cell, n *network, a *admin.Admin) {
			if _, err := a.Cell(t.Context()); err != nil { // finds the master
				t.Fatal(err)
			}
			changes := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/access/") }
			n.instead = func(r *http.Request) (*http.Response, error) {
				if !changes(r) || n.count(changes) > 1 {
					return nil, nil
				}
				return n.lose(r)
			}
			err := one.call(t.Context(), a.Access())
			sent := n.count(changes)
			if one.once && (!errors.Is(err, client.ErrOutcomeUnknown) || sent != 1) {
				t.Errorf("%s: sent %d times, %v", one.name, sent, err)
			}
			if !one.once && (errors.Is(err, client.ErrOutcomeUnknown) || sent < 2) {
				t.Errorf("%s: sent %d times, %v", one.name, sent, err)
			}
		})
	}
}

func TestNewSecret(t *testing.T) {
	secret, sum := admin.NewSecret()
	other, _ := admin.NewSecret()
	want := sha256.Sum256([]byte(secret))
	if sum != hex.EncodeToString(want[:]) || secret == other || len(secret) != len(lockapi.SecretPrefix)+64 ||
		(&lockapi.EnableRequest{TokenSHA256: sum}).Validate() != nil {
		t.Errorf("%q with the sum %q", secret, sum)
	}
}
