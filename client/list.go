package client

import (
	"context"
	"iter"
	"net/url"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

// ListLocks yields the locks with paths that begin with prefix, a plain string,
// in bytewise order of their paths. The empty prefix means all locks. It
// fetches pages as needed, each a consistent view of its own. The first error
// is yielded last.
func (c *Client) ListLocks(ctx context.Context, prefix string, opts ...ReadOption) iter.Seq2[lockapi.Lock, error] {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return bridge.Pages(query, func(q url.Values) ([]lockapi.Lock, string, error) {
		var page lockapi.LockList
		err := c.read(ctx, &call.Call{Path: lockapi.RouteLocks, Out: &page}, q, opts)
		return page.Locks, page.Next, err
	})
}
