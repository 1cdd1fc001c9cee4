package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Cell reads the state of the cell. It shows one without a master only if none
// of the replicas that answer knows of any.
func (c *Client) Cell(ctx context.Context) (out lockapi.Cell, err error) {
	err = c.calls.do(ctx, &call{method: http.MethodGet, path: lockapi.RouteCell, any: true, out: &out})
	if err == nil && out.Master == nil {
		out = c.otherView(ctx, out)
	}
	return out, err
}

// viewTime is how long the others have to say that there is a master after all.
const viewTime = time.Second

// otherView is what one of the other replicas says of the cell, if it knows of
// a master of an epoch no earlier than the view's; else it is the view. One
// that is cut off from the others knows of none.
func (c *Client) otherView(ctx context.Context, view lockapi.Cell) lockapi.Cell {
	ctx, cancel := context.WithTimeout(ctx, viewTime)
	defer cancel()
	all := c.calls.targets.known.Load().all
	views := make(chan lockapi.Cell, len(all))
	for _, e := range all {
		go func() {
			var out lockapi.Cell
			_ = c.calls.attempt(ctx, &route{to: e}, &call{method: http.MethodGet, path: lockapi.RouteCell, any: true, out: &out})
			views <- out
		}()
	}
	for range all {
		if other := <-views; other.Master != nil && other.Epoch >= view.Epoch {
			return other
		}
	}
	return view
}

// CellAt reads the state of the cell from the very replica whose base URL is
// given, in one attempt: its master's view, if the replica knows a master that
// answers it quickly, else its own. A name of the DNS that the client was given
// stands for any of its replicas, here and with Ready and Replica.
func (c *Client) CellAt(ctx context.Context, url string) (out lockapi.Cell, err error) {
	err = c.askOne(ctx, url, call{path: lockapi.RouteCell, any: true, out: &out})
	return out, err
}

// Ready asks the very replica whose base URL is given whether it knows a master
// and is caught up, in one attempt. It returns nil where it does and is, and a
// *lockapi.Error with the reason where it answers that it does not; that of a
// replica that is none of its cell's has Directory and Command set.
func (c *Client) Ready(ctx context.Context, url string) error {
	return c.askOne(ctx, url, call{path: lockapi.RouteReady})
}

// askOne makes one attempt of a read, of the replica at url. For a name of the DNS
// those are asked that it stands for, and one that answers will do.
func (c *Client) askOne(ctx context.Context, url string, q call) error {
	if isName(url) {
		return c.askNamed(ctx, url, q)
	}
	e := c.calls.targets.known.Load().find(url)
	if e == nil {
		var err error
		if e, err = givenEndpoint(url, c.scheme); err != nil {
			return err
		}
	}
	q.method = http.MethodGet
	err := c.calls.attempt(ctx, &route{to: e}, &q)
	if isForeign(err) {
		return q.outcome(err)
	}
	return err
}

// askNamed makes one attempt of a read of each replica that a name stands for. The
// first success counts, else a refusal, else what is wrong with all of them.
func (c *Client) askNamed(ctx context.Context, text string, q call) error {
	found, err := c.calls.finder.lookUpNow(ctx, text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan racer, len(found))
	for _, e := range found {
		own := q
		own.method = http.MethodGet
		if q.out != nil {
			own.out = reflect.New(reflect.TypeOf(q.out).Elem()).Interface()
		}
		go func() { answers <- racer{q: &own, err: c.calls.attempt(ctx, &route{to: e}, &own)} }()
	}
	var refused error
	var failed []error
	for range found {
		a := <-answers
		switch {
		case a.err == nil && q.out != nil:
			reflect.ValueOf(q.out).Elem().Set(reflect.ValueOf(a.q.out).Elem())
			return nil
		case a.err == nil:
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

// ReplaceMember has the cell go over to another data directory of the member
// with the given id. It returns once the cell has begun: the directory is a
// nonvoter until it has caught up, and then takes the old one's place (see
// Members). Where that is so already, or under way, it changes nothing; but one
// that was to get the place of the directory that is named, and has not yet, is
// taken back. So it is sent again where its answer got lost, but is never under
// way twice at a time. It always names the directory that it replaces, so that a
// copy that arrives late undoes no newer change: where req.InPlaceOf is empty, the
// member's present one is read first.
//
// Errors: ErrInvalidArgument for what is no directory's id, ErrNotFound where
// the cell has no such member, ErrConflict for a directory of another and where
// the member has another than req.InPlaceOf, ErrBusy while another change is not
// committed, and ErrUnsafe, unless req.Force is set, where too few of the members
// are well.
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

// presentDirectory returns the directory that a caller has named, or else the one that a
// member has now: the last one that is listed for its id.
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

// memberPath says why an id can't stand in a path, or nil.
func memberPath(id string) error {
	if id == "" || id == "." || id == ".." || strings.Contains(id, "/") {
		return lockapi.Invalid("id", "%q is not the id of a member", id)
	}
	return nil
}

// AddMember has a replica that waits for it become a member (see stoutd --join).
// It returns once the cell has taken it in without a vote; the cell gives it one
// when it has caught up (see Members), unless req.Suffrage is "nonvoter". To add
// it again changes nothing.
//
// Errors: ErrInvalidArgument, ErrConflict where the name, the directory or an
// address is another member's, and ErrBusy while another change is not committed.
func (c *Client) AddMember(ctx context.Context, req lockapi.AddMemberRequest) error {
	if err := req.Validate(); err != nil {
		return err
	}
	return c.calls.do(ctx, &call{method: http.MethodPost, path: lockapi.RouteMembers, body: encode(req), single: true})
}

// SetMember changes where a member is reached, or whether it votes, and returns
// the member as it is then. One that is to get a vote gets it when it has caught
// up.
//
// Errors: ErrInvalidArgument, ErrNotFound, ErrConflict for an address of another
// member, ErrBusy while another change is not committed, and ErrUnsafe, unless
// req.Force is set, where too few would be well without its vote.
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

// RemoveMember takes a member out of the cell. The master hands over first, if it
// is that one. A member that is none any more is ErrNotFound, also where an
// earlier call whose answer was lost has removed it. It always names the member's
// directory, as ReplaceMember does.
//
// Errors: ErrNotFound, ErrConflict where the member has another directory than
// req.Directory, ErrBusy while another change is not committed, and ErrUnsafe
// where too few of the others are well, which req.Force overrides, or where it is
// the only one that votes, which nothing does.
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
