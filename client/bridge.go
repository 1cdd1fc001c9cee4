package client

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

func init() {
	bridge.New = func(c any) bridge.Client { return bridged{c.(*Client)} }
}

// bridged makes the calls of package admin.
type bridged struct{ c *Client }

// makeCall makes a call of package admin one of the client's own.
func makeCall(q bridge.Call) call.Call {
	out := call.Call{
		Method: cmp.Or(q.Method, http.MethodGet), Path: q.Path, Out: q.Out, Status: q.Status, AnswerTime: q.Late,
		NoRetry: q.NoRetry, Exclusive: q.Exclusive, Any: q.Any, Stale: q.Stale, Settles: q.Settles,
	}
	if q.Check != nil {
		out.Check = func(own *call.Call) string { return q.Check(own.Out) } // may be a fork
	}
	if q.Body != nil {
		out.Body = encode(q.Body)
	}
	out.Query = readQuery(q.Query, q.Stale).Encode()
	return out
}

// readQuery returns the query of a read, which may be stale.
func readQuery(query url.Values, stale bool) url.Values {
	if stale {
		if query == nil {
			query = make(url.Values)
		}
		query.Set("consistency", lockapi.ConsistencyStale)
	}
	return query
}

func (b bridged) Do(ctx context.Context, q bridge.Call) error {
	own := makeCall(q)
	return b.c.calls.Do(ctx, &own)
}

func (b bridged) At(ctx context.Context, url string, q bridge.Call) error {
	own := makeCall(q)
	return b.c.calls.At(ctx, url, &own)
}

func (b bridged) Stream(ctx context.Context, q bridge.Call, media string) (*http.Response, error) {
	own := makeCall(q)
	own.StreamType = media
	return b.c.calls.Stream(ctx, &own)
}

func (b bridged) URLs(ctx context.Context) ([]string, error) { return b.c.calls.KnownURLs(ctx) }
