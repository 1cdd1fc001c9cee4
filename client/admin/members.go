package admin

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/lockapi"
)

// Members reads the members of the cell.
func (a *Admin) Members(ctx context.Context, opts ...client.ReadOption) (lockapi.Members, error) {
	return do[lockapi.Members](ctx, a.c, bridge.Call{Path: lockapi.RouteMembers, Stale: isStale(opts)}, nil)
}

// ReplaceMember replaces the data directory of the member with the given id. It
// returns once the cell has begun: the directory is a nonvoter until it has
// caught up, and then takes the old one's place (see Members). If that is
// already so, or under way, the call only cancels a pending replacement of
// req.Directory by another one. So the call is repeated if its answer is lost,
// but is never under way twice at a time. It always names the directory to
// replace, so that a late copy does not undo a newer change: if req.InPlaceOf
// is empty, the member's present one is read first.
//
// Errors: ErrInvalidArgument for a malformed directory id, ErrNotFound if the
// cell has no such member. ErrConflict for another member's directory, and if
// the member's directory is not req.InPlaceOf. ErrBusy while another change is
// not committed. ErrUnsafe if too few of the members are healthy, unless
// req.Force is set.
func (a *Admin) ReplaceMember(ctx context.Context, id string, req lockapi.ReplaceMemberRequest) (err error) {
	if err := req.Validate(); err != nil {
		return err
	}
	if err := memberPath(id); err != nil {
		return err
	}
	if req.InPlaceOf, err = a.presentDirectory(ctx, id, req.InPlaceOf); err != nil {
		return err
	}
	q := bridge.Call{Method: http.MethodPost, Path: lockapi.RouteMembers + "/" + id + "/replace", Body: req, Exclusive: true}
	if req.Force {
		q.Query = url.Values{"force": {"true"}}
	}
	return a.c.Do(ctx, q)
}

// presentDirectory returns the directory that a caller has named, otherwise the
// member's present one: the last one listed for its id.
func (a *Admin) presentDirectory(ctx context.Context, id, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	list, err := a.Members(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range list.Members {
		if m.ID == id {
			named = m.Directory
		}
	}
	if named == "" {
		return "", lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member of this cell", id)
	}
	return named, nil
}

// memberPath returns an error if an id cannot be part of a path.
func memberPath(id string) error {
	if id == "" || id == "." || id == ".." || strings.Contains(id, "/") {
		return lockapi.Invalid("id", "%q is not the id of a member", id)
	}
	return nil
}

// AddMember makes a waiting replica a member (see stoutd --join). It returns
// once the cell has added it without a vote. The cell gives it a vote when it
// has caught up (see Members), unless req.Suffrage is "nonvoter". Adding it
// again has no effect.
//
// Errors: ErrInvalidArgument, ErrConflict if another member has the name, the
// directory or an address, and ErrBusy while another change is not committed.
func (a *Admin) AddMember(ctx context.Context, req lockapi.AddMemberRequest) error {
	if err := req.Validate(); err != nil {
		return err
	}
	return a.c.Do(ctx, bridge.Call{Method: http.MethodPost, Path: lockapi.RouteMembers, Body: req, Exclusive: true})
}

// SetMember changes a member's addresses, or whether it votes, and returns the
// changed member. A member that is to vote gets its vote when it has caught up.
//
// Errors: ErrInvalidArgument, ErrNotFound, ErrConflict for an address of
// another member, ErrBusy while another change is not committed, and ErrUnsafe
// if too few healthy voters would remain, unless req.Force is set.
func (a *Admin) SetMember(ctx context.Context, id string, req lockapi.SetMemberRequest) (out lockapi.Member, err error) {
	if err := req.Validate(); err != nil {
		return out, err
	}
	if err := memberPath(id); err != nil {
		return out, err
	}
	q := bridge.Call{Method: http.MethodPatch, Path: lockapi.RouteMembers + "/" + id, Body: req, Exclusive: true}
	if req.Force {
		q.Query = url.Values{"force": {"true"}}
	}
	return do[lockapi.Member](ctx, a.c, q, nil)
}

// RemoveMember removes a member from the cell. A master that is to be removed
// hands over first. If the member no longer exists the error is ErrNotFound,
// even if an earlier call with a lost answer removed it. RemoveMember always
// names the member's directory, as ReplaceMember does.
//
// Errors: ErrNotFound, ErrConflict if the member's directory is not
// req.Directory, ErrBusy while another change is not committed. ErrUnsafe if
// too few of the others are healthy, which req.Force overrides, or if it is the
// only voter, which cannot be overridden.
func (a *Admin) RemoveMember(ctx context.Context, id string, req lockapi.RemoveMemberRequest) (err error) {
	if err := req.Validate(); err != nil {
		return err
	}
	if err := memberPath(id); err != nil {
		return err
	}
	if req.Directory, err = a.presentDirectory(ctx, id, req.Directory); err != nil {
		return err
	}
	q := bridge.Call{Method: http.MethodDelete, Path: lockapi.RouteMembers + "/" + id, Query: url.Values{"directory": {req.Directory}}, Exclusive: true, Settles: isGone}
	if req.Force {
		q.Query.Set("force", "true")
	}
	return a.c.Do(ctx, q)
}
