package client

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

func init() {
	bridge.Caller = func(c any) *call.Caller { return c.(*Client).calls }
}

// Client talks to one cell. It is safe for concurrent use and meant to be
// shared: all its sessions and calls share one pool of connections and one
// choice of replica.
//
// Every method repeats a call that may safely be repeated until its context
// ends; give a deadline to a context that has no other end. If the context ends
// first, errors.Is holds with the context's error, and with ErrNoMaster
// (certainly no effect) or ErrOutcomeUnknown.
type Client struct {
	calls   *call.Caller
	metrics Metrics
	limiter limiter
	sharing sharing // of keepalives
	feeds   feeds   // of watches
	tokens  high    // of grants
	seen    high    // of the cell's revisions
	clock   clock
	grace   time.Duration
	log     *slog.Logger
}

// Close closes idle connections and ends the search for replicas. It does not
// close the client's sessions: close them first.
//
// A client that is dropped without Close, and has no session, is collected
// within a minute, together with its connections. A session keeps its client,
// and a connection, until it is closed or expires. The garbage collector
// ends no session, since a program may work under a lock without keeping the
// values.
func (c *Client) Close() error {
	c.calls.Close()
	return nil
}

// ReadLock reads the state of one lock. A lock without holders and waiters
// reads as free, whether or not it ever existed.
func (c *Client) ReadLock(ctx context.Context, path string, opts ...ReadOption) (out lockapi.Lock, err error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return out, err
	}
	q := call.Call{Path: lockapi.RouteLocks + path, Out: &out, Check: verifyLock, Required: call.Required{Path: path}}
	var query url.Values
	if n := bridge.MakeReadOptions(opts).Waiters; n != 0 {
		query = url.Values{"waiters": {strconv.Itoa(n)}}
	}
	err = c.read(ctx, &q, query, opts)
	return out, err
}

// CheckSequencer reports whether the very grant that a sequencer describes is
// held now. A resource calls it with the sequencer of a request. A resource
// that remembers the highest token seen does not need it.
func (c *Client) CheckSequencer(ctx context.Context, sequencer string, opts ...ReadOption) (out lockapi.SequencerCheck, err error) {
	if _, err := lockapi.ParseSequencer(sequencer); err != nil {
		return out, err
	}
	err = c.read(ctx, &call.Call{Path: lockapi.RouteSequencers, Out: &out}, url.Values{"value": {sequencer}}, opts)
	return out, err
}

// read makes a GET call with the options of a read.
func (c *Client) read(ctx context.Context, q *call.Call, query url.Values, opts []ReadOption) error {
	q.Stale = bridge.MakeReadOptions(opts).Stale
	q.Method, q.Query = http.MethodGet, bridge.Query(query, q.Stale)
	return c.calls.Do(ctx, q)
}

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
