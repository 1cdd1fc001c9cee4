package server

import (
	"net/http"
	"net/url"

	"github.com/stoutlock/stout/lockapi"
)

// answerJoin tells a replica that is to join where the others' ports are. Whoever
// knows the name of the cell is told that there, too (see package peerconn).
func answerJoin(x *exchange) error {
	view := x.master.View()
	if name := x.query.of(paramCell); name != view.Cell.Cell {
		x.noted.denied = true
		x.holdBack()
		return lockapi.Errorf(lockapi.CodeNotFound, "this is a replica of another cell than %q; its log says of which", lockapi.Clip(name))
	}
	out := lockapi.Joining{CellID: view.CellID, Replicas: []lockapi.Joined{}}
	for _, r := range view.Cell.Replicas {
		out.Replicas = append(out.Replicas, lockapi.Joined{ID: r.ID, RaftAddr: r.RaftAddr})
	}
	return x.reply(http.StatusOK, out)
}

// checkDirectory refuses a directory that can't be, also an empty one.
func checkDirectory(x *exchange, c *lockapi.RemoveMember) error {
	if _, given := x.query[paramDirectory.name]; !given {
		return nil
	}
	return lockapi.ValidateDirectory(c.Directory)
}

// memberID is the name in the request's path. One that no member has is not
// found, whatever it looks like.
func memberID(raw string) (string, error) {
	id, err := url.PathUnescape(raw)
	switch {
	case err != nil || id == "":
		return "", lockapi.Invalid("id", "the name %q of a replica is malformed", lockapi.Clip(raw))
	case len(id) > lockapi.MaxMemberIDBytes:
		return "", lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member of this cell", lockapi.Clip(id))
	}
	return id, nil
}
