package client

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/stoutlock/stout/lockapi"
)

// History reads the events of the lock and the file at a path that the
// answering replica remembers. It returns at most limit events (0 means
// lockapi.DefaultHistoryLimit), newest first, including changes of master. Each
// replica remembers its last events, so others may reach further back (Oldest).
// It needs no master.
func (c *Client) History(ctx context.Context, path string, limit int) (out lockapi.History, err error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return out, err
	}
	query := url.Values{"path": {path}}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	err = c.read(ctx, call{path: lockapi.RouteHistory, out: &out, check: checking(func(out *lockapi.History) string { return wrongHistory(out, path) })}, query, nil)
	return out, err
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
func (c *Client) Deadlocks(ctx context.Context, opts ...ReadOption) ([]lockapi.Deadlock, error) {
	var out lockapi.Deadlocks
	err := c.read(ctx, call{path: lockapi.RouteDeadlocks, out: &out, check: checking(func(out *lockapi.Deadlocks) string {
		if slices.ContainsFunc(out.Deadlocks, func(d lockapi.Deadlock) bool { return len(d.Links) == 0 }) {
			return "an empty deadlock cycle"
		}
		return ""
	})}, nil, opts)
	return out.Deadlocks, err
}
