// Package bridge lets package client/admin make calls as a client does: over
// its connections, with its credential, and repeated by its rules. It has no
// call of its own: those are in the packages that use it.
package bridge

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

// Caller returns the caller of a *client.Client. Package client sets it.
var Caller func(client any) *call.Caller

// Client makes calls as a *client.Client does.
type Client struct{ calls *call.Caller }

// New returns the bridge to a *client.Client.
func New(client any) Client { return Client{Caller(client)} }

// Do makes a call, and repeats it while that is safe, until it is answered or
// ctx ends.
func (c Client) Do(ctx context.Context, q Call) error { return c.calls.Do(ctx, q.own()) }

// At makes one attempt of a read, at the replica at a base URL. For a DNS name
// it asks all its replicas, and one answer suffices.
func (c Client) At(ctx context.Context, url string, q Call) error {
	return c.calls.At(ctx, url, q.own())
}

// Stream makes a call with a stream of the given media type as its answer, which
// the caller closes. A stream that is silent for too long ends with an error.
func (c Client) Stream(ctx context.Context, q Call, media string) (*http.Response, error) {
	own := q.own()
	own.StreamType = media
	return c.calls.Stream(ctx, own)
}

// URLs returns the base URLs of the known replicas.
func (c Client) URLs(ctx context.Context) ([]string, error) { return c.calls.KnownURLs(ctx) }

// Call is one call of the API.
type Call struct {
	Method    string // empty means GET
	Path      string
	Query     url.Values
	Body      any                  // sent as JSON; nil for none
	Out       any                  // where a 2xx answer's JSON goes; nil to ignore it
	Check     func(out any) string // describes what is wrong with an answer; may be nil
	Status    int                  // of success; 0 means any 2xx
	Late      time.Duration        // how late its answer may be; 0 means the client's default
	NoRetry   bool                 // not sent again after it may have taken effect
	Exclusive bool                 // never under way twice at a time
	Any       bool                 // any replica may receive it and ask the master itself
	Stale     bool                 // any replica may answer it from its own state
	// Settles reports which refusals also settle earlier attempts that got no
	// answer; nil means none.
	Settles func(lockapi.Code) bool
}

// own returns the call in the form of package call.
func (q *Call) own() *call.Call {
	out := &call.Call{
		Method: cmp.Or(q.Method, http.MethodGet), Path: q.Path, Query: Query(q.Query, q.Stale), Out: q.Out, Status: q.Status,
		AnswerTime: q.Late, NoRetry: q.NoRetry, Exclusive: q.Exclusive, Any: q.Any, Stale: q.Stale, Settles: q.Settles,
	}
	if q.Check != nil {
		out.Check = func(own *call.Call) string { return q.Check(own.Out) } // may be a fork
	}
	if q.Body != nil {
		out.Body = call.Encode(q.Body)
	}
	return out
}

// Query returns the query of a read, which may be stale.
func Query(query url.Values, stale bool) string {
	if stale {
		if query == nil {
			query = make(url.Values)
		}
		query.Set("consistency", lockapi.ConsistencyStale)
	}
	return query.Encode()
}

// ReadOptions are what a client.ReadOption sets.
type ReadOptions struct {
	Stale    bool
	Waiters  int
	Contents bool
}

// MakeReadOptions returns the result of client.ReadOptions.
func MakeReadOptions[Option ~func(*ReadOptions)](opts []Option) ReadOptions {
	if len(opts) == 0 {
		return ReadOptions{} // without an allocation
	}
	o := ReadOptions{}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// IsID reports whether an id of the cell can be part of a URL's path and of a
// log.
func IsID(id string) bool {
	odd := func(c rune) bool { return c > unicode.MaxASCII || !unicode.IsGraphic(c) || c == '/' || c == ' ' }
	return id != "" && id != "." && id != ".." && len(id) <= 128 && !strings.ContainsFunc(id, odd)
}

// Pages yields the items of one page after the other.
func Pages[T any](query url.Values, fetch func(url.Values) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query.Set("limit", strconv.Itoa(lockapi.MaxListLimit))
		query.Del("after")
		for {
			items, next, err := fetch(query)
			if err != nil {
				yield(*new(T), err)
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
				yield(*new(T), lockapi.Errorf(lockapi.CodeInternal, "the page after %q ends at %q, so the list makes no progress", lockapi.Clip(after), lockapi.Clip(next)))
				return
			}
			query.Set("after", next)
		}
	}
}
