package client_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func TestTransaction(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		ctx := t.Context()
		s := open(t, c)
		h := lock(t, s, "/primary")
		stat := mustPut(t, c, "/a", "one")
		var lost atomic.Int64
		tc.dropIf(func(r *http.Request) bool { return r.Method == http.MethodPost && lost.Add(1)%3 != 0 })
		got, err := s.Txn().
			If(client.WhenRevision("/a", stat.Revision), client.WhenAbsent("/b"), client.WhenPresent("/a"), client.WhenHeld(h), client.WhenSequencer(h.Sequencer())).
			Then(client.OpPut("/a", []byte("two")), client.OpCreate("/b", []byte{0xff}), client.OpCreateSequential("/q/", nil), client.OpGet("/b"), client.OpDelete("/a"), client.OpDelete("/c"), client.OpGet("/c")).
			Else(client.OpGet("/a")).
			Commit(ctx)
		if err != nil || !got.Succeeded || got.Revision < stat.Revision+4 || len(got.Results) != 7 {
			t.Fatalf("%+v, %v", got, err)
		}
		r := got.Results
		if r[0].File.Revision <= stat.Revision || !strings.HasPrefix(r[2].File.Path, "/q/00000000") || string(r[3].File.ContentBase64) != "\xff" ||
			!r[4].Deleted.Deleted || r[5].Deleted.Deleted || r[6].File != nil {
			t.Errorf("results are %+v", r)
		}
		// An earlier operation of its own is in its way.
		got, err = s.Txn().If(client.WhenAbsent("/b")).Then(client.OpPut("/b", nil)).Else(client.OpGet("/b"), client.OpAcquire("/l", "h", client.Shared()), client.OpRelease("/l", "h", 0)).Commit(ctx)
		if err != nil || got.Succeeded || string(got.Results[0].File.ContentBase64) != "\xff" || got.Results[1].Grant.Mode != lockapi.Shared {
			t.Errorf("%+v, %v", got, err)
		}
		_, err = s.Txn().Then(client.OpPut("/x", nil), client.OpCreate("/b", nil)).Commit(ctx)
		refused, ok := errors.AsType[*lockapi.Error](err)
		if !errors.Is(err, client.ErrPrecondition) || !ok || refused.Operation == nil || *refused.Operation != 1 || refused.Current == nil || refused.Current.Path != "/b" {
			t.Errorf("an operation that can't be done: %+v", err)
		}
		wantErr(t, second(c.Get(ctx, "/x")), client.ErrNotFound)
	})
}

func TestTransactionsThatMakeNoSense(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		for name, txn := range map[string]*client.Txn{
			"no path":        c.Txn().Then(client.OpGet("a")),
			"two conditions": c.Txn().Then(client.OpPut("/a", nil, client.IfAbsent())),
			"no sequencer":   c.Txn().If(client.WhenSequencer("x")),
			"two locks":      c.Txn().Then(client.OpAcquire("/a", "h", client.With("/b"))),
			"no hold":        c.Txn().If(client.WhenHeld(nil)),
			"bad mode":       c.Txn().Else(client.OpAcquire("/a", strings.Repeat("h", 65))),
			"too many":       c.Txn().Then(make([]client.Operation, lockapi.MaxTransactionParts+1)...),
		} {
			if _, err := txn.Commit(t.Context()); !errors.Is(err, client.ErrInvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
		}
		big := make([]byte, lockapi.MaxFileBytes)
		wantErr(t, second(c.Txn().Then(client.OpPut("/a", big), client.OpPut("/b", big), client.OpPut("/c", big)).Commit(t.Context())), client.ErrTooLarge)
		s := open(t, c)
		h := lock(t, s, "/l")
		_ = h.Unlock(t.Context())
		wantErr(t, second(s.Txn().If(client.WhenHeld(h)).Commit(t.Context())), client.ErrNotHeld)
		next := lock(t, s, "/l")
		txn := s.Txn().If(client.WhenHeld(next)).Then(client.OpPut("/a", nil))
		_ = next.Unlock(t.Context())
		wantErr(t, second(txn.Commit(t.Context())), client.ErrNotHeld)
	})
}

func TestLiesAboutTransactions(t *testing.T) {
	amongLies(t, asks(http.MethodPost, lockapi.RouteTransactions), func(t *testing.T, l *liar, c *client.Client) {
		mustPut(t, c, "/a", "one")
		s := open(t, c)
		file := map[string]any{"path": "/a", "revision": 3, "instance": 1, "generation": 3}
		l.wantDisbelieved(t, map[string]func(*http.Response, map[string]any){
			"no results": set("results", []any{}), "the other branch": set("succeeded", false),
			"another file":    set("results", []any{map[string]any{"path": "/b", "revision": 9, "instance": 1, "generation": 2}, nil}),
			"no file":         set("results", []any{nil, nil}),
			"another kind":    set("results", []any{map[string]any{"deleted": true}, nil}),
			"no deletion":     set("results", []any{file, map[string]any{"released": true}}),
			"an old revision": set("revision", 0),
			"a later one":     set("revision", 1<<53),
		}, func() error {
			return second(s.Txn().Then(client.OpPut("/a", nil), client.OpDelete("/b")).Commit(t.Context()))
		})
	})
}
