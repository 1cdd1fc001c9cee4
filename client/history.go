package client

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/stoutlock/stout/lockapi"
)

// History reads what the replica that answers remembers of the lock and the file at a
// path: at most limit of its events (0 stands for lockapi.DefaultHistoryLimit), newest
// first, with the changes of master among them. Each replica remembers its last
// events, so others may reach further back (Oldest). It needs no master.
func (c *Client) History(ctx context.Context, path string, limit int) (out lockapi.History, err error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return out, err
	}
	query := url.Values{"path": {path}}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	err = c.read(ctx, call{path: lockapi.RouteHistory, out: &out, check: func(*call) string { return wrongHistory(&out, path) }}, query, nil)
	return out, err
}

// wrongHistory says what is wrong with the history of a path, or "".
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
			return fmt.Sprintf("a history with revision %d behind %d, which is not newest first", e.Revision, h.Events[i-1].Revision)
		}
	}
	return ""
}

// Deadlocks finds sessions that wait for each other in circles, as far as one may
// read all of a circle's paths: none of them gets on until one gives up or is ended.
func (c *Client) Deadlocks(ctx context.Context, opts ...ReadOption) ([]lockapi.Deadlock, error) {
	var out lockapi.Deadlocks
	err := c.read(ctx, call{path: lockapi.RouteDeadlocks, out: &out, check: func(*call) string {
		if slices.ContainsFunc(out.Deadlocks, func(d lockapi.Deadlock) bool { return len(d.Links) == 0 }) {
			return "a circle of nobody"
		}
		return ""
	}}, nil, opts)
	return out.Deadlocks, err
}
