// Package bridge lets package client/admin make calls as a client does: over
// its connections, with its credential, and repeated by its rules.
package bridge

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stoutlock/stout/lockapi"
)

// New returns the bridge to a *client.Client. Package client sets it.
var New func(client any) Client

// Client makes calls as a *client.Client does.
type Client interface {
	// Do makes a call, and repeats it while that is safe, until it is answered or
	// ctx ends.
	Do(ctx context.Context, q Call) error
	// At makes one attempt of a read, at the replica at a base URL. For a DNS
	// name it asks all its replicas, and one answer suffices.
	At(ctx context.Context, url string, q Call) error
	// Stream makes a call with a stream of the given media type as its answer,
	// which the caller closes. A stream that is silent for too long ends with an
	// error.
	Stream(ctx context.Context, q Call, media string) (*http.Response, error)
	// URLs returns the base URLs of the known replicas.
	URLs(ctx context.Context) ([]string, error)
}

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
