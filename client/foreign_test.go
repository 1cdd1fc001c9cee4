package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
)

// beside is a cell with a slow first replica. At r2 there is a web server with
// always the same answer.
type beside struct {
	*testCell
	web   answer
	calls int // to the web server; one at a time
	dies  bool
}

func (b *beside) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "r2" {
		b.set(func() { b.calls++ })
		return b.web.RoundTrip(r)
	}
	client.Sleep(r.Context(), 2*client.HedgeAfter)
	if b.dies {
		return nil, errors.New("connection reset by peer")
	}
	return b.testCell.RoundTrip(r)
}

// webPages are answers that no replica gives, at least not to this call.
var webPages = map[string]struct {
	status int
	body   string
	want   error // if there is no other answer
}{
	"page":        {http.StatusOK, "<html>", client.ErrInternal},
	"no page":     {http.StatusNotFound, "404 page not found", client.ErrInternal},
	"other JSON":  {http.StatusNotFound, `{"error":"not found"}`, client.ErrInternal},
	"broken":      {http.StatusInternalServerError, "<html>", client.ErrInternal},
	"no entry":    {http.StatusForbidden, "<html>", client.ErrInternal},
	"other lock":  {http.StatusOK, `{"path":"/other","state":"free"}`, client.ErrInternal},
	"no upstream": {http.StatusBadGateway, "<html>", context.DeadlineExceeded},
}

// An answer that is not a replica's does not settle a call that a slow replica
// will answer.
func TestNonsenseSettlesNoRace(t *testing.T) {
	for name, page := range webPages {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			way := &beside{testCell: tc, web: func(*http.Request) (int, string) { return page.status, page.body }}
			fresh := func() *client.Client { return tc.by(t, way, "http://r1", "http://r2") }
			began := time.Now()
			if l, err := fresh().ReadLock(t.Context(), "/a"); err != nil || l.Path != "/a" {
				t.Errorf("%+v, %v", l, err)
			}
			wantWithin(t, began, 3*client.HedgeAfter)
			if way.calls == 0 || way.calls > 10 {
				t.Errorf("the web server got %d requests", way.calls)
			}
			h := lock(t, open(t, fresh()), "/a")
			must(t, h.Unlock(t.Context()))
		})
	}
}

// Without another answer the error reports the web server's answer, and that it
// is no replica's.
func TestNonsenseIsToldWhereNobodyElseAnswers(t *testing.T) {
	for name, page := range webPages {
		subBubble(t, name, func(t *testing.T, tc *testCell, _ *client.Client) {
			way := &beside{testCell: tc, dies: true, web: func(*http.Request) (int, string) { return page.status, page.body }}
			c := tc.by(t, way, "http://r1", "http://r2")
			ctx := timeout(t, 5*time.Second)
			_, err := c.ReadLock(ctx, "/a")
			wantErr(t, err, page.want)
			if silent := page.want == context.DeadlineExceeded; errors.Is(err, client.ErrNoAnswer) != silent {
				t.Errorf("no replica answered: %v", err)
			}
		})
	}
}
