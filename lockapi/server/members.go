package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

func listMembers(x *exchange) error {
	return x.read(func(ctx context.Context, r master.Read) (any, error) {
		return x.master.MemberList(ctx, r)
	})
}

func replaceMember(x *exchange) error {
	id, err := x.memberID()
	if err != nil {
		return err
	}
	var req lockapi.ReplaceMemberRequest
	if err := decode(x.body, &req); err != nil {
		return err
	}
	if req.Force, err = x.query.flag(paramForce); err != nil {
		return err
	}
	if err := req.Validate(); err != nil {
		return err
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		err := x.master.Replace(ctx, master.ReplaceRequest{Caller: x.caller(), ID: id, ReplaceMemberRequest: req})
		return http.StatusAccepted, lockapi.MemberChange{ID: id, Directory: req.Directory}, err
	}})
}

// memberID is the name in the request's path. One that no member has is not
// found, whatever it looks like.
func (x *exchange) memberID() (string, error) {
	raw := x.c.Param("id")
	id, err := url.PathUnescape(raw)
	switch {
	case err != nil || id == "":
		return "", lockapi.Invalid("id", "the name %q of a replica is malformed", lockapi.Clip(raw))
	case len(id) > lockapi.MaxMemberIDBytes:
		return "", lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member of this cell", lockapi.Clip(id))
	}
	return id, nil
}
