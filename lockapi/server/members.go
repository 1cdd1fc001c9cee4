package server

import (
	"net/http"
	"net/url"

	"github.com/stoutlock/stout/lockapi"
)

// answerJoin answers a replica that wants to join with the Raft addresses of
// the members. Any caller that knows the cell's name may also learn them at
// those ports (see package peerconn).
func answerJoin(x *exchange) error {
	view := x.master.View()
	if name := x.query.of(paramCell); name != view.Cell.Cell {
		x.noted.denied = true
		x.holdBack()
		return lockapi.Errorf(lockapi.CodeNotFound, "this replica does not belong to cell %q; its log has the name of its cell", lockapi.Clip(name))
	}
	out := lockapi.Joining{CellID: view.CellID, Replicas: []lockapi.Joined{}}
	for _, r := range view.Cell.Replicas {
		out.Replicas = append(out.Replicas, lockapi.Joined{ID: r.ID, RaftAddr: r.RaftAddr})
	}
	return x.reply(http.StatusOK, out)
}

// checkDirectory refuses an invalid or empty directory.
func checkDirectory(x *exchange, c *lockapi.RemoveMember) error {
	if _, given := x.query[paramDirectory.name]; !given {
		return nil
	}
	return lockapi.ValidateDirectory(c.Directory)
}

// memberID decodes the member's name in the path. A name that no member can
// have gives not_found.
func memberID(raw string) (string, error) {
	id, err := url.PathUnescape(raw)
	switch {
	case err != nil || id == "":
		return "", lockapi.Invalid("id", "the replica's name %q is malformed", lockapi.Clip(raw))
	case len(id) > lockapi.MaxMemberIDBytes:
		return "", lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member of this cell", lockapi.Clip(id))
	}
	return id, nil
}
