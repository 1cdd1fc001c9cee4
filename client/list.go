package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

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
	return pages(query, func(q url.Values) ([]lockapi.Lock, string, error) {
		var page lockapi.LockList
		err := c.read(ctx, call{path: lockapi.RouteLocks, out: &page}, q, opts)
		return page.Locks, page.Next, err
	})
}

// ListSessions yields the sessions of the cell in the order of their ids, with
// their holds and waits. It pages as ListLocks does.
func (c *Client) ListSessions(ctx context.Context, opts ...ReadOption) iter.Seq2[lockapi.SessionState, error] {
	return pages(url.Values{}, func(q url.Values) ([]lockapi.SessionState, string, error) {
		var page lockapi.SessionList
		err := c.read(ctx, call{path: lockapi.RouteSessions, out: &page}, q, opts)
		return page.Sessions, page.Next, err
	})
}

// pages yields the items of one page after the other.
func pages[T any](query url.Values, fetch func(url.Values) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query.Set("limit", strconv.Itoa(lockapi.MaxListLimit))
		query.Del("after")
		for {
			items, next, err := fetch(query)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			if after := query.Get("after"); next <= after {
				var none T
				yield(none, lockapi.Errorf(lockapi.CodeInternal, "the page after %q ends at %q, so the list makes no progress", lockapi.Clip(after), lockapi.Clip(next)))
				return
			}
			query.Set("after", next)
		}
	}
}
