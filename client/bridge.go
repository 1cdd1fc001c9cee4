package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/lockapi"
)

func init() {
	bridge.New = func(c any) bridge.Client { return bridged{c.(*Client)} }
}

// bridged makes the calls of package admin.
type bridged struct{ c *Client }

// makeCall makes a call of package admin one of the client's own.
func makeCall(q bridge.Call) call {
	out := call{
		method: cmp.Or(q.Method, http.MethodGet), path: q.Path, out: q.Out, status: q.Status, late: q.Late,
		once: q.NoRetry, single: q.Exclusive, any: q.Any, stale: q.Stale, settles: q.Settles,
	}
	if q.Check != nil {
		out.check = func(own *call) string { return q.Check(own.out) } // may be a fork
	}
	if q.Body != nil {
		out.body = encode(q.Body)
	}
	out.query = readQuery(q.Query, q.Stale).Encode()
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
	return b.c.calls.do(ctx, &own)
}

func (b bridged) At(ctx context.Context, url string, q bridge.Call) error {
	own, calls := makeCall(q), &b.c.calls
	if isName(url) {
		return b.c.askNamed(ctx, url, &own)
	}
	e := calls.router.known.Load().find(url)
	if e == nil {
		var err error
		if e, err = givenEndpoint(url, b.c.scheme); err != nil {
			return err
		}
	}
	err := calls.attempt(ctx, &route{to: e}, &own)
	if isForeign(err) {
		return own.outcome(err)
	}
	return err
}

// askNamed makes one attempt of a read at each replica of a DNS name. It
// returns the first success, otherwise a refusal, otherwise all errors.
func (c *Client) askNamed(ctx context.Context, text string, q *call) error {
	found, err := c.calls.finder.lookUpNow(ctx, text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var refused error
	var failed []error
	for a := range c.calls.askAll(ctx, q, false, found) {
		switch {
		case a.err == nil:
			q.adopt(a.q)
			return nil
		case isAnswer(a.err):
			refused = a.err
		case isForeign(a.err):
			failed = append(failed, a.q.outcome(a.err))
		default:
			failed = append(failed, a.err)
		}
	}
	return cmp.Or(refused, errors.Join(failed...))
}

func (b bridged) Stream(ctx context.Context, q bridge.Call, media string) (*http.Response, error) {
	own := makeCall(q)
	own.media = media
	ctx, cut := context.WithCancelCause(ctx)
	if err := b.c.calls.repeat(ctx, &own); err != nil {
		cut(nil)
		return nil, err
	}
	own.stream.Body = &watched{streamed{own.stream.Body, cut}}
	return own.stream, nil
}

// watched is a stream that is cut off after too long a silence.
type watched struct{ streamed }

func (w *watched) Read(b []byte) (int, error) {
	silence := time.AfterFunc(mostSilence, func() { w.cut(errSilent) })
	n, err := w.streamed.Read(b)
	if !silence.Stop() && err != nil {
		err = errors.Join(err, errSilent)
	}
	return n, err
}

func (b bridged) URLs(ctx context.Context) (out []string, err error) {
	if _, err := b.c.calls.pick(ctx); err != nil {
		return nil, err
	}
	for _, e := range b.c.calls.router.known.Load().all {
		out = append(out, e.base)
	}
	return out, nil
}
