package client

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

func TestTransaction(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		ctx := t.Context()
		s := open(t, c)
		h := lock(t, s, "/primary")
		stat := mustPut(t, c, "/a", "one")
		var lost atomic.Int64
		f.set(func() {
			f.drop = func(r *http.Request) bool { return r.Method == http.MethodPost && lost.Add(1)%3 != 0 }
		})
		got, err := s.Txn().
			If(WhenRevision("/a", stat.Revision), WhenAbsent("/b"), WhenPresent("/a"), WhenHeld(h), WhenSequencer(h.Sequencer())).
			Then(OpPut("/a", []byte("two")), OpCreate("/b", []byte{0xff}), OpCreateSequential("/q/", nil), OpGet("/b"), OpDelete("/a"), OpDelete("/c"), OpGet("/c")).
			Else(OpGet("/a")).
			Commit(ctx)
		if err != nil || !got.Succeeded || got.Revision != 5 || len(got.Results) != 7 {
			t.Fatalf("%+v, %v", got, err)
		}
		r := got.Results
		if r[0].File.Revision != 2 || r[2].File.Path != "/q/0000000000000004" || string(r[3].File.ContentBase64) != "\xff" ||
			!r[4].Deleted.Deleted || r[5].Deleted.Deleted || r[6].File != nil {
			t.Errorf("results are %+v", r)
		}
		// It is in the way of itself.
		got, err = s.Txn().If(WhenAbsent("/b")).Then(OpPut("/b", nil)).Else(OpGet("/b"), OpAcquire("/l", "h", Shared()), OpRelease("/l", "h", 0)).Commit(ctx)
		if err != nil || got.Succeeded || string(got.Results[0].File.ContentBase64) != "\xff" || got.Results[1].Grant.Mode != lockapi.Shared {
			t.Errorf("%+v, %v", got, err)
		}
		_, err = s.Txn().Then(OpPut("/x", nil), OpCreate("/b", nil)).Commit(ctx)
		refused, ok := errors.AsType[*lockapi.Error](err)
		if !errors.Is(err, ErrPrecondition) || !ok || refused.Operation == nil || *refused.Operation != 1 || refused.Current == nil || refused.Current.Path != "/b" {
			t.Errorf("an operation that can't be done: %+v", err)
		}
		_, err = c.Get(ctx, "/x")
		wantErr(t, err, ErrNotFound)
	})
}

func TestTransactionsThatMakeNoSense(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		for name, txn := range map[string]*Txn{
			"no path":        c.Txn().Then(OpGet("a")),
			"two conditions": c.Txn().Then(OpPut("/a", nil, IfAbsent())),
			"no sequencer":   c.Txn().If(WhenSequencer("x")),
			"no hold":        c.Txn().If(WhenHeld(nil)),
			"bad mode":       c.Txn().Else(OpAcquire("/a", strings.Repeat("h", 65))),
			"too many":       c.Txn().Then(make([]Operation, lockapi.MaxTransactionParts+1)...),
		} {
			if _, err := txn.Commit(t.Context()); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
		}
		big := make([]byte, lockapi.MaxFileBytes)
		_, err := c.Txn().Then(OpPut("/a", big), OpPut("/b", big), OpPut("/c", big)).Commit(t.Context())
		wantErr(t, err, ErrTooLarge)
		s := open(t, c)
		h := lock(t, s, "/l")
		_ = h.Unlock(t.Context())
		_, err = s.Txn().If(WhenHeld(h)).Commit(t.Context())
		wantErr(t, err, ErrNotHeld)
		next := lock(t, s, "/l")
		txn := s.Txn().If(WhenHeld(next)).Then(OpPut("/a", nil))
		_ = next.Unlock(t.Context())
		_, err = txn.Commit(t.Context())
		wantErr(t, err, ErrNotHeld)
	})
}

func TestLiesAboutTransactions(t *testing.T) {
	amongLies(t, asks(http.MethodPost, lockapi.RouteTransactions), func(t *testing.T, l *liar, c *Client) {
		mustPut(t, c, "/a", "one")
		s := open(t, c)
		file := map[string]any{"path": "/a", "revision": 3, "instance": 1, "generation": 3}
		for name, lie := range map[string]func(*http.Response, map[string]any){
			"no results": set("results", []any{}), "the other branch": set("succeeded", false),
			"another file":    set("results", []any{map[string]any{"path": "/b", "revision": 9, "instance": 1, "generation": 2}, nil}),
			"no file":         set("results", []any{nil, nil}),
			"another kind":    set("results", []any{map[string]any{"deleted": true}, nil}),
			"no deletion":     set("results", []any{file, map[string]any{"released": true}}),
			"an old revision": set("revision", 0),
			"a later one":     set("revision", 1<<53),
		} {
			l.tell(lie)
			if _, err := s.Txn().Then(OpPut("/a", nil), OpDelete("/b")).Commit(t.Context()); !errors.Is(err, ErrInternal) {
				t.Errorf("%s is taken for an outcome: %v", name, err)
			}
		}
		l.stop()
	})
}
