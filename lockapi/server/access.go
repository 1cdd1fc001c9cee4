package server

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

func putRule(x *exchange) error {
	req := master.RuleChange{}
	if err := x.rulePath(); err != nil {
		return err
	}
	if err := x.request(&req.AccessLists); err != nil {
		return err
	}
	req.Caller, req.Path = x.caller(), x.node
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		r, err := x.master.PutRule(ctx, req)
		return http.StatusOK, r, err
	}})
}

func deleteRule(x *exchange) error {
	if err := x.rulePath(); err != nil {
		return err
	}
	return x.drop(func(ctx context.Context) error {
		return x.master.DropRule(ctx, master.RuleChange{Caller: x.caller(), Path: x.node})
	})
}

// deleteRulesBelow deletes the rules below a directory, which ends in a slash.
func deleteRulesBelow(x *exchange) error {
	prefix := x.query.of(paramRulesBelow)
	if prefix != "/" {
		if err := lockapi.ValidatePrefix(prefix); err != nil {
			return err
		}
		prefix = strings.TrimSuffix(prefix, "/")
	}
	x.node = prefix
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		done, err := x.master.DropRulesBelow(ctx, master.RuleChange{Caller: x.caller(), Path: x.node})
		return http.StatusOK, done, err
	}})
}

// drop dispatches a call after which something is gone.
func (x *exchange) drop(run func(context.Context) error) error {
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) { return http.StatusNoContent, nil, run(ctx) }})
}

func readRule(x *exchange) error {
	if err := x.rulePath(); err != nil {
		return err
	}
	return x.read(func(ctx context.Context, r master.Read) (any, error) {
		return x.master.Rule(ctx, master.AccessQuery{Read: r, Path: x.node})
	})
}

// rulePath reads where the rule stands that the URL names.
func (x *exchange) rulePath() (err error) {
	x.node, err = lockapi.UnescapeRulePath(x.c.Param("path"))
	return err
}

func listRules(x *exchange) error {
	page, err := x.accessPage()
	if err != nil {
		return err
	}
	if page.Prefix, err = x.query.prefix(); err != nil {
		return err
	}
	return x.readList(func(ctx context.Context, r master.Read) (any, error) {
		page.Read = r
		return x.master.Rules(ctx, page)
	})
}

func (x *exchange) accessPage() (p master.AccessPage, err error) {
	p.After = x.query.of(paramAfter)
	p.Limit, err = x.query.limit()
	return p, err
}

func checkAccess(x *exchange) error {
	q := master.CheckQuery{Path: x.query.of(paramAccessPath), Principal: x.query.of(paramPrincipal)}
	if err := lockapi.ValidateRulePath(q.Path); err != nil {
		return err
	}
	if _, given := x.query[paramPrincipal.name]; given {
		if err := lockapi.ValidatePrincipal(q.Principal); err != nil {
			return err
		}
	}
	x.node = q.Path
	return x.read(func(ctx context.Context, r master.Read) (any, error) {
		q.Read = r
		return x.master.CheckAccess(ctx, q)
	})
}

func putGroup(x *exchange) error {
	req := master.GroupChange{Caller: x.caller()}
	var err error
	if req.Name, err = x.groupName(); err != nil {
		return err
	}
	if err := x.request(&req.GroupMembers); err != nil {
		return err
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		g, err := x.master.PutGroup(ctx, req)
		return http.StatusOK, g, err
	}})
}

func deleteGroup(x *exchange) error {
	name, err := x.groupName()
	if err != nil {
		return err
	}
	return x.drop(func(ctx context.Context) error {
		return x.master.DropGroup(ctx, master.GroupChange{Caller: x.caller(), Name: name})
	})
}

func readGroup(x *exchange) error {
	name, err := x.groupName()
	if err != nil {
		return err
	}
	return x.read(func(ctx context.Context, r master.Read) (any, error) {
		return x.master.Group(ctx, master.AccessQuery{Read: r, Name: name})
	})
}

// groupName is the name in the request's path.
func (x *exchange) groupName() (string, error) {
	raw := x.c.Param("name")
	name, err := url.PathUnescape(raw)
	if err != nil {
		return "", lockapi.Invalid("name", "the name %q of a group is malformed", lockapi.Clip(raw))
	}
	return name, lockapi.ValidateGroup(name)
}

func listGroups(x *exchange) error {
	return x.readList(func(ctx context.Context, r master.Read) (any, error) {
		return x.master.Groups(ctx, master.AccessPage{Read: r, After: x.query.of(paramAfter)})
	})
}

func putCellAccess(x *exchange) error {
	req := master.CellAccessChange{Caller: x.caller()}
	if err := x.request(&req.CellAccess); err != nil {
		return err
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		c, err := x.master.PutCellAccess(ctx, req)
		return http.StatusOK, c, err
	}})
}

func readCellAccess(x *exchange) error {
	return x.read(func(ctx context.Context, r master.Read) (any, error) { return x.master.CellAccess(ctx, r) })
}

func createToken(x *exchange) error {
	req := master.TokenCreation{Caller: x.caller()}
	if err := x.request(&req.TokenRequest); err != nil {
		return err
	}
	if err := x.opts.forToken(req.Principal); err != nil {
		return err
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		t, err := x.master.CreateToken(ctx, req)
		return http.StatusCreated, t, err
	}})
}

func listTokens(x *exchange) error {
	page, err := x.accessPage()
	if err != nil {
		return err
	}
	return x.readList(func(ctx context.Context, r master.Read) (any, error) {
		page.Read = r
		return x.master.Tokens(ctx, page)
	})
}

func revokeToken(x *exchange) error {
	id, err := x.sessionID() // ids of tokens look like those of sessions
	if err != nil {
		return err
	}
	return x.drop(func(ctx context.Context) error {
		return x.master.RevokeToken(ctx, master.TokenRevocation{Caller: x.caller(), ID: id})
	})
}

func enableAccess(x *exchange) error {
	req := master.AccessEnabling{Caller: x.caller()}
	if err := x.request(&req.EnableRequest); err != nil {
		return err
	}
	x.mayEnable(&req.Caller, req.Secret)
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		t, err := x.master.EnableAccess(ctx, req)
		return http.StatusCreated, t, err
	}})
}

func disableAccess(x *exchange) error {
	if err := decode(x.body, &struct{}{}); err != nil {
		return err
	}
	return x.drop(func(ctx context.Context) error { return x.master.DisableAccess(ctx, x.caller()) })
}

func whoAmI(x *exchange) error {
	rights, err := x.query.flag(paramRights)
	if err != nil {
		return err
	}
	return x.read(func(ctx context.Context, r master.Read) (any, error) {
		me, err := x.master.WhoAmI(ctx, r)
		if !rights {
			me.Observe, me.Operate = false, false
		}
		return me, err
	})
}
