package client

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

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
	calls   caller
	scheme  string // of a host:port without one
	limiter limiter
	tokens  high // of grants
	seen    high // of the cell's revisions
	clock   clock
	grace   time.Duration
	log     *slog.Logger
}

// Close closes idle connections and ends the search for replicas. It does not
// close the client's sessions: close them first.
//
// A client that is dropped without Close, and has no session, is collected
// within a minute, together with its connections. A session keeps its client,
// and two connections, until it is closed or expires. The garbage collector
// ends no session, since a program may work under a lock without keeping the
// values.
func (c *Client) Close() error {
	c.calls.finder.close()
	c.calls.close()
	return nil
}

// URLs returns the base URLs of the known replicas: first those given, and the
// DNS addresses of the given names; then those learned from the cell. A URL
// from a dns+https name carries that name, which verifies its certificate, as
// in "https://10.0.0.2:7101 (stout.example.com)". CellAt, Ready and Replica
// accept this form; other programs need the part before the space. URLs waits
// for the DNS while no replica is known.
func (c *Client) URLs(ctx context.Context) (out []string, err error) {
	if _, err := c.calls.pick(ctx); err != nil {
		return nil, err
	}
	for _, e := range c.calls.router.known.Load().all {
		out = append(out, e.base)
	}
	return out, nil
}

// ReadLock reads the state of one lock. A lock without holders and waiters
// reads as free, whether or not it ever existed.
func (c *Client) ReadLock(ctx context.Context, path string, opts ...ReadOption) (out lockapi.Lock, err error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return out, err
	}
	q := call{path: lockapi.RouteLocks + path, out: &out, check: verifyLock, want: wanted{path: path}}
	err = c.read(ctx, q, queueQuery(opts), opts)
	return out, err
}

// queueQuery returns the query for the positions of a queue that a read asks
// for.
func queueQuery(opts []ReadOption) url.Values {
	if o := makeReadOptions(opts); o.queue != 0 {
		return url.Values{"waiters": {strconv.Itoa(o.queue)}}
	}
	return nil
}

// ReadSession reads a session with its holds and waits.
func (c *Client) ReadSession(ctx context.Context, id string, opts ...ReadOption) (out lockapi.SessionState, err error) {
	path, err := sessionPath(id)
	if err != nil {
		return out, err
	}
	err = c.read(ctx, call{path: path, out: &out, check: verifyState, want: wanted{session: id}}, nil, opts)
	return out, err
}

// KillSession ends any session at once. Its locks are free without lock-delay,
// and its owner finds it expired. KillSession succeeds if the session does not
// exist.
func (c *Client) KillSession(ctx context.Context, id string) error {
	path, err := sessionPath(id)
	if err != nil {
		return err
	}
	return c.calls.do(ctx, &call{method: http.MethodDelete, path: path, status: http.StatusNoContent})
}

// Release removes a hold, or a position in a queue, of any session: an operator
// uses it to free a lock. Token 0 releases any grant of the handle; another
// token releases only that grant. Release reports whether it found something to
// release. That is uncertain after a repeated call, since the first attempt may
// have done it. The lock's history records a release by force.
func (c *Client) Release(ctx context.Context, path, session, handle string, token uint64) (bool, error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return false, err
	}
	if session == "" {
		return false, lockapi.Invalid("session", "session is required: the id of the holder's session")
	}
	if err := lockapi.ValidateHandle(handle); err != nil {
		return false, err
	}
	var out lockapi.Released
	q := releaseCall(path, session, handle, token)
	q.query += "&by_force=true"
	q.out, q.settles = &out, isGone
	err := c.calls.do(ctx, &q)
	return out.Released, err
}

// releaseCall returns the call that ends a hold or a position in a queue.
func releaseCall(path, session, handle string, token uint64) call {
	query := "session=" + url.QueryEscape(session) + "&handle=" + url.QueryEscape(handle)
	if token != 0 {
		query += "&token=" + strconv.FormatUint(token, 10)
	}
	return call{method: http.MethodDelete, path: lockapi.RouteLocks + path, query: query, settles: seenThrough}
}

// CheckSequencer reports whether the very grant that a sequencer describes is
// held now. A resource calls it with the sequencer of a request. A resource
// that remembers the highest token seen does not need it.
func (c *Client) CheckSequencer(ctx context.Context, sequencer string, opts ...ReadOption) (out lockapi.SequencerCheck, err error) {
	if _, err := lockapi.ParseSequencer(sequencer); err != nil {
		return out, err
	}
	err = c.read(ctx, call{path: lockapi.RouteSequencers, out: &out}, url.Values{"value": {sequencer}}, opts)
	return out, err
}

// Replica reads the state of the replica at the given base URL, in one attempt:
// no other replica can answer for it.
func (c *Client) Replica(ctx context.Context, url string) (out lockapi.Replica, err error) {
	err = c.askOne(ctx, url, call{path: lockapi.RouteReplica, any: true, out: &out})
	return out, err
}

// Transfer hands mastership to the replica with the id to, or to any other
// replica if to is empty. ErrConflict means that the replica is not healthy, or
// that there is no other voter; then nothing has changed. Transfer is sent
// once: if it returns ErrOutcomeUnknown, Cell shows the present master.
func (c *Client) Transfer(ctx context.Context, to string) (out lockapi.Transferred, err error) {
	q := call{
		method: http.MethodPost, path: lockapi.RouteTransfer, out: &out, once: true,
		body: encode(lockapi.TransferRequest{To: to}), late: transferTime,
		check: verifyTransferred, want: wanted{master: to},
	}
	err = c.calls.do(ctx, &q)
	return out, err
}

// transferTime bounds the answer to a transfer: the new master first catches
// up, then wins an election.
const transferTime = 30 * time.Second

// read makes a GET call with the options of a read.
func (c *Client) read(ctx context.Context, q call, query url.Values, opts []ReadOption) error {
	o := makeReadOptions(opts)
	if o.stale {
		if query == nil {
			query = make(url.Values)
		}
		query.Set("consistency", lockapi.ConsistencyStale)
	}
	q.method, q.query, q.stale = http.MethodGet, query.Encode(), o.stale
	return c.calls.do(ctx, &q)
}

func sessionPath(id string) (string, error) {
	if !isSessionID(id) {
		return "", lockapi.Invalid("session", "%q is not the id of a session", id)
	}
	return lockapi.RouteSessions + "/" + id, nil
}

// encode returns the JSON of a request; requests always have a JSON form.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("client: " + err.Error())
	}
	return b
}
