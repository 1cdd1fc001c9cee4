package client

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

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
	err = c.read(ctx, &q, queueQuery(opts), opts)
	return out, err
}

// queueQuery returns the query for the positions of a queue that a read asks
// for.
func queueQuery(opts []ReadOption) url.Values {
	if o := bridge.MakeReadOptions(opts); o.Waiters != 0 {
		return url.Values{"waiters": {strconv.Itoa(o.Waiters)}}
	}
	return nil
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
	q.Method, q.Query = http.MethodGet, readQuery(query, q.Stale).Encode()
	return c.calls.Do(ctx, q)
}

// encode returns the JSON of a request; requests always have a JSON form.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("client: " + err.Error())
	}
	return b
}
