package consul

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

const datacenter = "dc1"

// Prefix precedes the paths of the door between replicas, where the API has
// paths that begin with /v1/, too.
const Prefix = "/consul"

// MaxBody bounds the body of a request: a value of the longest kind in base64,
// and its frame.
const MaxBody = 1 << 20

// Request is a request to the door.
type Request struct {
	Method   string
	Endpoint string // the path before the argument, such as "/v1/kv/"
	Argument string // the rest of the path, as it was sent
	Query    string // as it was sent
	Body     []byte
}

// Office makes the calls of a request.
type Office interface {
	// Do makes a call. The answer to a read comes with the revision that it
	// reflects.
	Do(ctx context.Context, c lockapi.Call) (answer any, revision uint64, err error)
	// Node is the name of this replica, which is the node of sessions that name
	// none.
	Node() string
}

// Call is a request that is valid.
type Call struct {
	Path  string // of the node; empty for several or none
	Under string // prefix of the paths of several nodes
	Stale bool   // this replica's own state is enough
	Reads bool   // it changes nothing
	Frees bool   // it keeps or frees what the caller has
	// Repeats is set if the request may be sent twice: the second answer equals
	// the first.
	Repeats bool
	// Watch is set for a blocking query.
	Watch *Watch
	// Query is the request's query without the parameters of a blocking query.
	Query string
	// Local answers a request about the cell itself, which any replica does; nil for
	// others. Run makes the calls that these need.
	Local func(c *Cell) (*Reply, error)
	Run   runner
}

// runner makes the calls that a request needs.
type runner func(ctx context.Context, o Office) (*Reply, error)

// Watch is what a blocking query waits for: a change of a path, or of a path
// with a prefix, after a revision. If both are empty nothing ends the wait.
type Watch struct {
	Path, Prefix string
	After        uint64
	Wait         time.Duration
}

// Reply is an answer. Its index is a revision; 0 for none.
type Reply struct {
	Status int
	Type   string
	Body   []byte
	Raw    bool // it is the value of a key
	Index  uint64
}

type endpoint struct {
	Method, Path string // Path ends in "/" if an argument follows
	params       []string
	blocks       bool // it accepts the parameters of blocking queries
	parse        func(r *Request, q url.Values, c *Call) error
}

// Endpoints lists what the door accepts.
var Endpoints = []endpoint{
	{http.MethodGet, "/v1/kv/", []string{"recurse", "keys", "separator", "seperator", "raw"}, true, parseGet},
	{http.MethodPut, "/v1/kv/", []string{"flags", "cas", "acquire", "release"}, false, parsePut},
	{http.MethodDelete, "/v1/kv/", []string{"recurse", "cas"}, false, parseDelete},
	{http.MethodPut, "/v1/txn", nil, false, parseTxn},
	{http.MethodPut, "/v1/session/create", nil, false, parseCreate},
	{http.MethodPut, PathDestroy, nil, false, ofSession(true, destroy)},
	{http.MethodPut, "/v1/session/renew/", nil, false, ofSession(true, renew)},
	{http.MethodGet, "/v1/session/info/", nil, false, ofSession(false, info)},
	{http.MethodGet, "/v1/session/node/", nil, false, parseNodeSessions},
	{http.MethodGet, "/v1/session/list", nil, false, parseSessions},
	{http.MethodGet, "/v1/status/leader", nil, false, aboutCell(func(c *Cell) any { return c.Leader })},
	{http.MethodGet, "/v1/status/peers", nil, false, aboutCell(peersOf)},
	{http.MethodGet, "/v1/agent/self", nil, false, aboutCell(selfOf)},
	{http.MethodGet, "/v1/agent/members", []string{"wan", "segment"}, false, ofMembers((*Member).member)},
	{http.MethodGet, "/v1/catalog/nodes", nil, true, ofMembers((*Member).node)},
	{http.MethodGet, "/v1/catalog/datacenters", nil, false, aboutCell(func(*Cell) any { return []string{datacenter} })},
	{http.MethodGet, "/v1/health/node/", nil, true, parseHealth},
}

// PathDestroy is the endpoint that ends a session, also another principal's.
const PathDestroy = "/v1/session/destroy/"

// common has the parameters of every request. The server has removed token.
var common = []string{"dc", "stale", "consistent", "pretty", "ns", "partition"}

// Parse reads a request. The error is a *lockapi.Error.
func Parse(r *Request) (*Call, error) {
	i := slices.IndexFunc(Endpoints, func(e endpoint) bool { return e.Method == r.Method && e.Path == r.Endpoint })
	if i < 0 {
		return nil, lockapi.Errorf(lockapi.CodeMethodNotAllowed, "the door has no %s %s", r.Method, r.Endpoint)
	}
	e := &Endpoints[i]
	q, err := url.ParseQuery(r.Query)
	if err != nil {
		return nil, lockapi.Invalid("query", "the query is malformed: %v", err)
	}
	for name := range q {
		if blocking := name == "index" || name == "wait"; slices.Contains(common, name) || slices.Contains(e.params, name) || blocking && e.blocks {
			continue
		}
		return nil, lockapi.Invalid(lockapi.Clip(name), "Stout's door for Consul's clients does not accept the parameter %q here: %s %s has %s",
			lockapi.Clip(name), e.Method, e.Path, strings.Join(append(slices.Clone(e.params), common...), ", "))
	}
	c := &Call{Reads: r.Method == http.MethodGet}
	if err := c.parseCommon(q); err != nil {
		return nil, err
	}
	if c.Watch, c.Query, err = parseBlocking(q, r.Query); err != nil {
		return nil, err
	}
	if err := e.parse(r, q, c); err != nil {
		return nil, err
	}
	if r.Method != http.MethodGet {
		c.Stale = false // a transaction that only reads is answered by the master
	}
	return c, nil
}

func (c *Call) parseCommon(q url.Values) error {
	if dc := q.Get("dc"); dc != "" && dc != datacenter {
		return lockapi.Errorf(lockapi.CodeInternal, "No path to datacenter: there is only %q", datacenter)
	}
	for _, name := range []string{"ns", "partition"} {
		if v := q.Get(name); v != "" && v != "default" {
			return lockapi.Invalid(name, "there is no %s but \"default\"", name)
		}
	}
	c.Stale = q.Has("stale")
	if c.Stale && q.Has("consistent") {
		return lockapi.Invalid("stale", "Cannot specify ?stale with ?consistent, conflicting semantics.")
	}
	return nil
}

// Bounds of the wait of a blocking query, as Consul has them.
const (
	defaultWait = 300 * time.Second
	maxWait     = 600 * time.Second
)

// parseBlocking returns the wait of a blocking query, or nil, and the query
// without it.
func parseBlocking(q url.Values, raw string) (*Watch, string, error) {
	if !q.Has("index") && !q.Has("wait") {
		return nil, raw, nil
	}
	w := &Watch{Wait: defaultWait}
	if text := q.Get("wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, "", lockapi.Invalid("wait", "Invalid wait time: %v", err)
		}
		if d > 0 {
			w.Wait = min(d, maxWait)
		}
	}
	if text := q.Get("index"); text != "" {
		var err error
		if w.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, "", lockapi.Invalid("index", "Invalid index: %v", err)
		}
	}
	q.Del("index")
	q.Del("wait")
	if w.After == 0 {
		w = nil
	}
	return w, q.Encode(), nil
}

func (r *Request) argument() (string, error) {
	text, err := url.PathUnescape(r.Argument)
	if err != nil {
		return "", lockapi.Invalid("path", "the path %q is malformed", lockapi.Clip(r.Argument))
	}
	return text, nil
}

// Refusal returns an error as Consul's clients expect it.
func Refusal(e *lockapi.Error) (status int, text string) {
	switch e.Code {
	case lockapi.CodeNoMaster, lockapi.CodeNotMaster:
		return http.StatusInternalServerError, "No cluster leader: " + e.Detail
	case lockapi.CodeOutcomeUnknown, lockapi.CodeConflict:
		return http.StatusInternalServerError, e.Detail
	case lockapi.CodeUnauthenticated, lockapi.CodePermissionDenied:
		return http.StatusForbidden, "Permission denied: " + e.Detail
	}
	return e.Code.Status(), e.Detail
}

// NotFound returns the answer to everything that the door does not have.
func NotFound(method, path string) (status int, text string) {
	status = http.StatusNotFound
	if strings.HasPrefix(path, "/v1/") {
		status = http.StatusNotImplemented
	}
	return status, fmt.Sprintf("%s %s is not part of Stout's door for Consul's clients. It accepts keys (/v1/kv/), transactions of keys (/v1/txn) and sessions (/v1/session/), "+
		"and answers /v1/status/leader, /v1/status/peers, /v1/agent/self, /v1/agent/members, /v1/catalog/nodes, /v1/catalog/datacenters and /v1/health/node/. See docs/consul.md.\n",
		lockapi.Clip(method), lockapi.Clip(path))
}
