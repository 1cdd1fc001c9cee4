package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Cell reads the state of the cell. It shows a cell without a master only if no
// answering replica knows a master.
func (c *Client) Cell(ctx context.Context) (out lockapi.Cell, err error) {
	err = c.calls.do(ctx, &call{method: http.MethodGet, path: lockapi.RouteCell, any: true, out: &out})
	if err == nil && out.Master == nil {
		out = c.otherView(ctx, out)
	}
	return out, err
}

// viewTime bounds the wait for another replica that knows a master.
const viewTime = time.Second

// otherView returns another replica's view of the cell, if that replica knows a
// master of an epoch no earlier than the given view's; otherwise the given
// view. A replica that is cut off from the others knows no master.
func (c *Client) otherView(ctx context.Context, view lockapi.Cell) lockapi.Cell {
	ctx, cancel := context.WithTimeout(ctx, viewTime)
	defer cancel()
	q := &call{method: http.MethodGet, path: lockapi.RouteCell, any: true, out: new(lockapi.Cell)}
	for a := range c.calls.askAll(ctx, q, false, c.calls.router.known.Load().all) {
		if other := a.q.out.(*lockapi.Cell); other.Master != nil && other.Epoch >= view.Epoch {
			return *other
		}
	}
	return view
}

// CellAt reads the state of the cell from the replica at the given base URL, in
// one attempt. The answer is its master's view if the replica knows a master
// that answers quickly, otherwise its own. A DNS name given to the client means
// any of its replicas, here and in Ready and Replica.
func (c *Client) CellAt(ctx context.Context, url string) (out lockapi.Cell, err error) {
	err = c.askOne(ctx, url, call{path: lockapi.RouteCell, any: true, out: &out})
	return out, err
}

// Ready asks the replica at the given base URL, in one attempt, whether it
// knows a master and is caught up. It returns nil if both hold, and otherwise a
// *lockapi.Error with the reason. For a replica that is not a member of its
// cell, the error has Directory and Command set.
func (c *Client) Ready(ctx context.Context, url string) error {
	return c.askOne(ctx, url, call{path: lockapi.RouteReady})
}

// askOne makes one attempt of a read, at the replica at url. For a DNS name it
// asks all its replicas, and one answer suffices.
func (c *Client) askOne(ctx context.Context, url string, q call) error {
	q.method = http.MethodGet
	if isName(url) {
		return c.askNamed(ctx, url, q)
	}
	e := c.calls.router.known.Load().find(url)
	if e == nil {
		var err error
		if e, err = givenEndpoint(url, c.scheme); err != nil {
			return err
		}
	}
	err := c.calls.attempt(ctx, &route{to: e}, &q)
	if isForeign(err) {
		return q.outcome(err)
	}
	return err
}

// askNamed makes one attempt of a read at each replica of a DNS name. It
// returns the first success, otherwise a refusal, otherwise all errors.
func (c *Client) askNamed(ctx context.Context, text string, q call) error {
	found, err := c.calls.finder.lookUpNow(ctx, text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var refused error
	var failed []error
	for a := range c.calls.askAll(ctx, &q, false, found) {
		switch {
		case a.err == nil:
			q.adopt(a.q)
			return nil
		case isAnswer(a.err):
			refused = a.err
		case isForeign(a.err):
			failed = append(failed, a.q.outcome(a.err))
		default:
			failed = append(failed, a.err)
		}
	}
	return cmp.Or(refused, errors.Join(failed...))
}

// Members reads the members of the cell.
func (c *Client) Members(ctx context.Context, opts ...ReadOption) (out lockapi.Members, err error) {
	err = c.read(ctx, call{path: lockapi.RouteMembers, out: &out}, nil, opts)
	return out, err
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
func (c *Client) ReplaceMember(ctx context.Context, id string, req lockapi.ReplaceMemberRequest) (err error) {
	if err := req.Validate(); err != nil {
		return err
	}
	if err := memberPath(id); err != nil {
		return err
	}
	if req.InPlaceOf, err = c.presentDirectory(ctx, id, req.InPlaceOf); err != nil {
		return err
	}
	q := call{method: http.MethodPost, path: lockapi.RouteMembers + "/" + id + "/replace", body: encode(req), single: true}
	if req.Force {
		q.query = "force=true"
	}
	return c.calls.do(ctx, &q)
}

// presentDirectory returns the directory that a caller has named, otherwise the
// member's present one: the last one listed for its id.
func (c *Client) presentDirectory(ctx context.Context, id, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	list, err := c.Members(ctx)
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
func (c *Client) AddMember(ctx context.Context, req lockapi.AddMemberRequest) error {
	if err := req.Validate(); err != nil {
		return err
	}
	return c.calls.do(ctx, &call{method: http.MethodPost, path: lockapi.RouteMembers, body: encode(req), single: true})
}

// SetMember changes a member's addresses, or whether it votes, and returns the
// changed member. A member that is to vote gets its vote when it has caught up.
//
// Errors: ErrInvalidArgument, ErrNotFound, ErrConflict for an address of
// another member, ErrBusy while another change is not committed, and ErrUnsafe
// if too few healthy voters would remain, unless req.Force is set.
func (c *Client) SetMember(ctx context.Context, id string, req lockapi.SetMemberRequest) (out lockapi.Member, err error) {
	if err := req.Validate(); err != nil {
		return out, err
	}
	if err := memberPath(id); err != nil {
		return out, err
	}
	q := call{method: http.MethodPatch, path: lockapi.RouteMembers + "/" + id, body: encode(req), single: true, out: &out}
	if req.Force {
		q.query = "force=true"
	}
	err = c.calls.do(ctx, &q)
	return out, err
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
func (c *Client) RemoveMember(ctx context.Context, id string, req lockapi.RemoveMemberRequest) (err error) {
	if err := req.Validate(); err != nil {
		return err
	}
	if err := memberPath(id); err != nil {
		return err
	}
	if req.Directory, err = c.presentDirectory(ctx, id, req.Directory); err != nil {
		return err
	}
	q := call{method: http.MethodDelete, path: lockapi.RouteMembers + "/" + id, query: "directory=" + url.QueryEscape(req.Directory), single: true, settles: isGone}
	if req.Force {
		q.query += "&force=true"
	}
	return c.calls.do(ctx, &q)
}
