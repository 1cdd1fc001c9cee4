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

// Client talks to one cell. It is safe for concurrent use, and meant to be
// shared: all its sessions and calls use one pool of connections and learn from
// one another where the master is.
//
// Every method repeats a call that may safely be repeated until its context
// ends; give a deadline to a context that has no other end. A call that was
// given up so returns an error for which errors.Is holds with the context's
// error, and with ErrNoMaster (certainly no effect) or ErrOutcomeUnknown.
type Client struct {
	calls   caller
	scheme  string // of a host:port without one
	limiter limiter
	tokens  high // that were granted
	seen    high // revisions of the cell
	clock   clock
	grace   time.Duration
	log     *slog.Logger
}

// Close closes the connections that are idle, and ends the search for replicas.
// Sessions of the client are not closed by it: close them first.
//
// A client that is dropped without Close, and has no session, is collected
// within a minute, and its connections with it. A session keeps its client, and
// two connections, until it is closed or expires: the garbage collector ends no
// session, since a program may work under a lock whose values it has dropped.
func (c *Client) Close() error {
	c.calls.finder.close()
	c.calls.close()
	return nil
}

// URLs are the base URLs of the replicas that the client knows: first those that it
// was given, and that the DNS has for the names that it was given; then those that
// it has learned from the cell. Behind one that the DNS has for a name given as
// dns+https is that name, by which its certificate is judged, as in
// "https://10.0.0.2:7101 (stout.example.com)": CellAt, Ready and Replica take it so,
// and other programs the part before the space. It waits for the DNS while it knows
// none.
func (c *Client) URLs(ctx context.Context) (out []string, err error) {
	if _, err := c.calls.pick(ctx); err != nil {
		return nil, err
	}
	for _, e := range c.calls.targets.known.Load().all {
		out = append(out, e.base)
	}
	return out, nil
}

// ReadLock reads the state of one lock. A lock that nobody holds or waits for
// reads as free, whether or not it ever existed.
func (c *Client) ReadLock(ctx context.Context, path string, opts ...ReadOption) (out lockapi.Lock, err error) {
	if err := lockapi.ValidatePath(path); err != nil {
		return out, err
	}
	q := call{path: lockapi.RouteLocks + path, out: &out, check: verifyLock, want: wanted{path: path}}
	err = c.read(ctx, q, queueQuery(opts), opts)
	return out, err
}

// queueQuery is what a read of a lock says about its queue.
func queueQuery(opts []ReadOption) url.Values {
	if o := makeReadOptions(opts); o.queue != 0 {
		return url.Values{"waiters": {strconv.Itoa(o.queue)}}
	}
	return nil
}

// ReadSession reads a session with what it holds and waits for.
func (c *Client) ReadSession(ctx context.Context, id string, opts ...ReadOption) (out lockapi.SessionState, err error) {
	path, err := sessionPath(id)
	if err != nil {
		return out, err
	}
	err = c.read(ctx, call{path: path, out: &out, check: verifyState, want: wanted{session: id}}, nil, opts)
	return out, err
}

// KillSession ends any session at once: what it holds is free without
// lock-delay, and its owner finds it expired. It succeeds where there is no
// such session.
func (c *Client) KillSession(ctx context.Context, id string) error {
	path, err := sessionPath(id)
	if err != nil {
		return err
	}
	return c.calls.do(ctx, &call{method: http.MethodDelete, path: path, status: http.StatusNoContent})
}

// Release takes a hold, or a position in a queue, from a session that need not
// be of this program: the operator's way to free a lock. token 0 stands for
// whichever grant the handle has; otherwise only that very grant is released.
// It reports whether there was something to release, which is not certain after
// a repeated call: the first may have done it. The history of the lock has it as a
// release by force.
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

// releaseCall is the call that ends a hold, or a position in a queue.
func releaseCall(path, session, handle string, token uint64) call {
	query := "session=" + url.QueryEscape(session) + "&handle=" + url.QueryEscape(handle)
	if token != 0 {
		query += "&token=" + strconv.FormatUint(token, 10)
	}
	return call{method: http.MethodDelete, path: lockapi.RouteLocks + path, query: query, settles: seenThrough}
}

// CheckSequencer asks whether the very grant that a sequencer describes is held
// now. This is what a resource does with the sequencer of a request; one that
// remembers the highest token it has seen can do without the call.
func (c *Client) CheckSequencer(ctx context.Context, sequencer string, opts ...ReadOption) (out lockapi.SequencerCheck, err error) {
	if _, err := lockapi.ParseSequencer(sequencer); err != nil {
		return out, err
	}
	err = c.read(ctx, call{path: lockapi.RouteSequencers, out: &out}, url.Values{"value": {sequencer}}, opts)
	return out, err
}

// Replica reads the state of the very replica whose base URL is given, in one
// attempt: no other can answer for it.
func (c *Client) Replica(ctx context.Context, url string) (out lockapi.Replica, err error) {
	err = c.askOne(ctx, url, call{path: lockapi.RouteReplica, any: true, out: &out})
	return out, err
}

// Transfer hands mastership to the replica with the id to, or to any other
// where to is empty. ErrConflict says that it is not well, or that nobody else
// votes, and that nothing was changed. It is sent once: where its outcome is unknown
// the error says so, and Cell tells who is master.
func (c *Client) Transfer(ctx context.Context, to string) (out lockapi.Transferred, err error) {
	q := call{
		method: http.MethodPost, path: lockapi.RouteTransfer, out: &out, once: true,
		body: encode(lockapi.TransferRequest{To: to}), late: transferTime,
		check: verifyTransferred, want: wanted{master: to},
	}
	err = c.calls.do(ctx, &q)
	return out, err
}

// transferTime is how long a transfer may take: the new master first catches
// up and has an election.
const transferTime = 30 * time.Second

// read is a GET of the contract.
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

// encode writes a request of the contract, which always has a JSON form.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("client: " + err.Error())
	}
	return b
}
