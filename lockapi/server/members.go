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

func listURLs(x *exchange) error {
	return x.read(func(ctx context.Context, r master.Read) (any, error) {
		return x.master.URLs(ctx, r)
	})
}

func addMember(x *exchange) error {
	var req lockapi.AddMemberRequest
	if err := x.request(&req); err != nil {
		return err
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		err := x.master.Add(ctx, master.AddRequest{Caller: x.caller(), AddMemberRequest: req})
		return http.StatusAccepted, lockapi.MemberChange{ID: req.ID, Directory: req.Directory}, err
	}})
}

func setMember(x *exchange) error {
	id, err := x.memberID()
	if err != nil {
		return err
	}
	var req lockapi.SetMemberRequest
	if err := x.request(&req); err != nil {
		return err
	}
	if req.Force, err = x.query.flag(paramForce); err != nil {
		return err
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		m, err := x.master.Set(ctx, master.SetRequest{Caller: x.caller(), ID: id, SetMemberRequest: req})
		return http.StatusOK, m, err
	}})
}

func removeMember(x *exchange) error {
	id, err := x.memberID()
	if err != nil {
		return err
	}
	var req lockapi.RemoveMemberRequest
	if req.Force, err = x.query.flag(paramForce); err != nil {
		return err
	}
	if directory, given := x.query[paramDirectory.name]; given {
		if err := lockapi.ValidateDirectory(directory); err != nil {
			return err
		}
		req.Directory = directory
	}
	return x.dispatch(task{run: func(ctx context.Context) (int, any, error) {
		err := x.master.Remove(ctx, master.RemoveRequest{Caller: x.caller(), ID: id, RemoveMemberRequest: req})
		return http.StatusOK, lockapi.MemberRemoved{ID: id, Removed: true}, err
	}})
}

// tellJoiner tells a replica that is to join where the others' ports are. Whoever
// knows the name of the cell is told that there, too (see package link).
func tellJoiner(x *exchange) error {
	cell := x.master.Cell()
	if name := x.query.of(paramCell); name != cell.Cell {
		x.noted.denied = true
		x.holdBack()
		return lockapi.Errorf(lockapi.CodeNotFound, "this is a replica of another cell than %q; its log says of which", lockapi.Clip(name))
	}
	out := lockapi.Joining{CellID: x.master.CellID(), Replicas: []lockapi.Joined{}}
	for _, r := range cell.Replicas {
		out.Replicas = append(out.Replicas, lockapi.Joined{ID: r.ID, RaftAddr: r.RaftAddr})
	}
	return x.reply(http.StatusOK, out)
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
