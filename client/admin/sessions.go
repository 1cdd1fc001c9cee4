package admin

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/lockapi"
)

// ListSessions yields the sessions of the cell in the order of their ids, with
// their holds and waits. It pages as Client.ListLocks does.
func (a *Admin) ListSessions(ctx context.Context, opts ...client.ReadOption) iter.Seq2[lockapi.SessionState, error] {
	return list(ctx, a.c, bridge.Call{Path: lockapi.RouteSessions, Stale: isStale(opts)}, func(page *lockapi.SessionList) ([]lockapi.SessionState, string) { return page.Sessions, page.Next })
}

// ReadSession reads a session with its holds and waits.
func (a *Admin) ReadSession(ctx context.Context, id string, opts ...client.ReadOption) (out lockapi.SessionState, err error) {
	path, err := sessionPath(id)
	if err != nil {
		return out, err
	}
	return do(ctx, a.c, bridge.Call{Path: path, Stale: isStale(opts)}, func(out *lockapi.SessionState) string { return mismatch("the state of session", out.ID, id) })
}

// KillSession ends any session at once. Its locks are free without lock-delay,
// and its owner finds it expired. KillSession succeeds if the session does not
// exist.
func (a *Admin) KillSession(ctx context.Context, id string) error {
	path, err := sessionPath(id)
	if err != nil {
		return err
	}
	return a.c.Do(ctx, bridge.Call{Method: http.MethodDelete, Path: path, Status: http.StatusNoContent})
}

func sessionPath(id string) (string, error) {
	if !bridge.IsID(id) {
		return "", lockapi.Invalid("session", "%q is not the id of a session", id)
	}
	return lockapi.RouteSessions + "/" + id, nil
}

// Release removes a hold, or a position in a queue, of any session. Token 0
// releases any grant of the handle; another token releases only that grant.
// Release reports whether it found something to release. That is uncertain
// after a repeated call, since the first attempt may have done it. The lock's
// history records a release by force.
func (a *Admin) Release(ctx context.Context, path, session, handle string, token uint64) (bool, error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return false, err
	}
	if session == "" {
		return false, lockapi.Invalid("session", "session is required: the id of the holder's session")
	}
	if err := lockapi.ValidateHandle(handle); err != nil {
		return false, err
	}
	query := url.Values{"session": {session}, "handle": {handle}, "by_force": {"true"}}
	if token != 0 {
		query.Set("token", strconv.FormatUint(token, 10))
	}
	out, err := do[lockapi.Released](ctx, a.c, bridge.Call{Method: http.MethodDelete, Path: lockapi.RouteLocks + path, Query: query, Settles: isGone}, nil)
	return out.Released, err
}

// History reads the events of the lock and the file at a path that the
// answering replica remembers. It returns at most limit events (0 means
// lockapi.DefaultHistoryLimit), newest first, including changes of master. Each
// replica remembers its last events, so others may reach further back (Oldest).
// It needs no master.
func (a *Admin) History(ctx context.Context, path string, limit int) (out lockapi.History, err error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return out, err
	}
	query := url.Values{"path": {path}}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return do(ctx, a.c, bridge.Call{Path: lockapi.RouteHistory, Query: query}, func(out *lockapi.History) string { return wrongHistory(out, path) })
}

// wrongHistory describes what is wrong with the history of a path, or returns
// "".
func wrongHistory(h *lockapi.History, path string) string {
	if h.Path != path {
		return fmt.Sprintf("the history of %q", lockapi.Clip(h.Path))
	}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Path != path && e.Type != lockapi.EventMasterChanged {
			return fmt.Sprintf("a history with an event of %q", lockapi.Clip(e.Path))
		}
		if i > 0 && e.Revision >= h.Events[i-1].Revision {
			return fmt.Sprintf("a history with revision %d after %d, which is not newest first", e.Revision, h.Events[i-1].Revision)
		}
	}
	return ""
}

// Deadlocks returns cycles of sessions that wait for each other, if the caller
// may read all paths of the cycle. A deadlock lasts until one session gives up
// or is ended.
func (a *Admin) Deadlocks(ctx context.Context, opts ...client.ReadOption) ([]lockapi.Deadlock, error) {
	out, err := do(ctx, a.c, bridge.Call{Path: lockapi.RouteDeadlocks, Stale: isStale(opts)}, func(out *lockapi.Deadlocks) string {
		if slices.ContainsFunc(out.Deadlocks, func(d lockapi.Deadlock) bool { return len(d.Links) == 0 }) {
			return "an empty deadlock cycle"
		}
		return ""
	})
	return out.Deadlocks, err
}
