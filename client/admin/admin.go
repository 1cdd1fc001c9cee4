// Package admin has the calls of package client that only operators make: they
// show and change the cell, its members, sessions and rights. It makes them as
// the client does, with its connections, credential and rules for repeats.
//
//	cell, err := client.New("dns:stout.prod.example:7101")
//	moved, err := admin.New(cell).Transfer(ctx, "r2")
//
// While access control is on, most calls need the permission observe or operate
// of the cell, or admin at a path. Changes of the members are repeated, but only
// one call after another. Transfer and changes of access are repeated only if
// they certainly had no effect; otherwise they return ErrOutcomeUnknown.
package admin

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/lockapi"
)

// Errors of the contract that only these calls return, see package client.
const (
	// ErrBusy: another change of the members is not committed yet.
	ErrBusy = lockapi.CodeBusy
	// ErrUnsafe: the change would leave the healthy members without a majority.
	ErrUnsafe = lockapi.CodeUnsafe
)

// Admin makes an operator's calls. It is safe for concurrent use.
type Admin struct{ c bridge.Client }

// New returns the operator's calls over a client.
func New(c *client.Client) *Admin { return &Admin{bridge.New(c)} }

// Cell reads the state of the cell. It shows a cell without a master only if no
// answering replica knows a master.
func (a *Admin) Cell(ctx context.Context) (out lockapi.Cell, err error) {
	err = a.c.Do(ctx, bridge.Call{Path: lockapi.RouteCell, Any: true, Out: &out})
	if err == nil && out.Master == nil {
		out = a.otherView(ctx, out)
	}
	return out, err
}

// viewTime bounds the wait for another replica that knows a master.
const viewTime = time.Second

// otherView returns another replica's view of the cell, if that replica knows a
// master of an epoch no earlier than the given view's; otherwise the given
// view. A replica that is cut off from the others knows no master.
func (a *Admin) otherView(ctx context.Context, view lockapi.Cell) lockapi.Cell {
	ctx, cancel := context.WithTimeout(ctx, viewTime)
	defer cancel()
	urls, _ := a.URLs(ctx)
	answers := make(chan lockapi.Cell, len(urls))
	for _, url := range urls {
		go func() {
			other, _ := a.CellAt(ctx, url)
			answers <- other
		}()
	}
	for range urls {
		if other := <-answers; other.Master != nil && other.Epoch >= view.Epoch {
			return other
		}
	}
	return view
}

// CellAt reads the state of the cell from the replica at the given base URL, in
// one attempt. The answer is its master's view if the replica knows a master
// that answers quickly, otherwise its own. A DNS name given to the client means
// any of its replicas, here and in Ready and Replica.
func (a *Admin) CellAt(ctx context.Context, url string) (out lockapi.Cell, err error) {
	err = a.c.At(ctx, url, bridge.Call{Path: lockapi.RouteCell, Any: true, Out: &out})
	return out, err
}

// Ready asks the replica at the given base URL, in one attempt, whether it
// knows a master and is caught up. It returns nil if both hold, and otherwise a
// *lockapi.Error with the reason. For a replica that is not a member of its
// cell, the error has Directory and Command set.
func (a *Admin) Ready(ctx context.Context, url string) error {
	return a.c.At(ctx, url, bridge.Call{Path: lockapi.RouteReady})
}

// Replica reads the state of the replica at the given base URL, in one attempt:
// no other replica can answer for it.
func (a *Admin) Replica(ctx context.Context, url string) (out lockapi.Replica, err error) {
	err = a.c.At(ctx, url, bridge.Call{Path: lockapi.RouteReplica, Any: true, Out: &out})
	return out, err
}

// URLs returns the base URLs of the known replicas: first those given, and the
// DNS addresses of the given names; then those learned from the cell. A URL
// from a dns+https name carries that name, which verifies its certificate, as
// in "https://10.0.0.2:7101 (stout.example.com)". CellAt, Ready and Replica
// accept this form; other programs need the part before the space. URLs waits
// for the DNS while no replica is known.
func (a *Admin) URLs(ctx context.Context) ([]string, error) { return a.c.URLs(ctx) }

// Transfer hands mastership to the replica with the id to, or to any other
// replica if to is empty. ErrConflict means that the replica is not healthy, or
// that there is no other voter; then nothing has changed. Transfer is sent
// once: if it returns ErrOutcomeUnknown, Cell shows the present master.
func (a *Admin) Transfer(ctx context.Context, to string) (lockapi.Transferred, error) {
	q := bridge.Call{Method: http.MethodPost, Path: lockapi.RouteTransfer, NoRetry: true, Body: lockapi.TransferRequest{To: to}, Late: transferTime}
	return do(ctx, a.c, q, func(out *lockapi.Transferred) string {
		if out.Master == "" || to != "" && out.Master != to {
			return fmt.Sprintf("that %q is master", lockapi.Clip(out.Master))
		}
		return ""
	})
}

// transferTime bounds the answer to a transfer: the new master first catches
// up, then wins an election.
const transferTime = 30 * time.Second

// isStale reports whether a read may be stale.
func isStale(opts []client.ReadOption) bool { return bridge.MakeReadOptions(opts).Stale }

// do makes a call that returns a T. wrong describes what is wrong with the
// answer; it may be nil.
func do[T any](ctx context.Context, c bridge.Client, q bridge.Call, wrong func(*T) string) (out T, err error) {
	q.Out = &out
	if wrong != nil {
		q.Check = func(out any) string { return wrong(out.(*T)) }
	}
	err = c.Do(ctx, q)
	return out, err
}

// list yields the items of a list, page by page. items returns a page's items
// and the start of the next page.
func list[P, T any](ctx context.Context, c bridge.Client, q bridge.Call, items func(*P) ([]T, string)) iter.Seq2[T, error] {
	query := q.Query
	if query == nil {
		query = url.Values{}
	}
	return bridge.Pages(query, func(next url.Values) ([]T, string, error) {
		q.Query = next
		page, err := do[P](ctx, c, q, nil)
		some, after := items(&page)
		return some, after, err
	})
}

// isGone is Settles for deletions: the object is gone, whichever attempt
// deleted it.
func isGone(c lockapi.Code) bool {
	return c == lockapi.CodeNotFound || c == lockapi.CodeSessionNotFound
}

// mismatch describes an answer about something else, or returns "".
func mismatch(what, got, want string) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s %q", what, lockapi.Clip(got))
}
