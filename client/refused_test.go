package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// refuseChanges refuses changes with a code, after the first one if the answer
// to that is lost.
func (tc *testCell) refuseChanges(code lockapi.Code, losesOne bool) {
	var lost atomic.Bool
	lost.Store(!losesOne)
	changes := func(r *http.Request) bool { return r.Method != http.MethodGet }
	tc.set(func() {
		tc.drop = func(r *http.Request) bool {
			return changes(r) && lost.CompareAndSwap(false, true)
		}
		tc.instead = func(r *http.Request) *http.Response {
			if !lost.Load() || !changes(r) {
				return nil
			}
			resp := refusal(lockapi.Errorf(code, "refused"))
			resp.Header.Set("Retry-After", "7")
			return resp
		}
	})
}

// A write that took effect, but lost its answer, never ends as one without
// effect. A refusal of the next attempt is about that attempt only, unless the
// cell remembers the answer under the key. If no answer was lost, the refusal
// shows that the write had no effect.
func TestRefusalsBehindALostAnswer(t *testing.T) {
	type write = func(context.Context, *client.Session) error
	put := func(ctx context.Context, s *client.Session) error { return second(s.Put(ctx, "/a", []byte("made"))) }
	commit := func(ctx context.Context, s *client.Session) error {
		return second(s.Txn().Then(client.OpPut("/a", []byte("made"))).Commit(ctx))
	}
	type row struct {
		code  lockapi.Code
		lost  bool
		write write
	}
	rows := []row{{client.ErrTooMany, false, put}, {client.ErrTooMany, false, commit}, {client.ErrTooMany, true, commit}}
	for _, code := range lockapi.Codes() {
		switch code {
		case lockapi.CodeNotMaster, lockapi.CodeNoMaster, lockapi.CodeOutcomeUnknown, lockapi.CodeBusy, lockapi.CodeInternal:
			continue // the write is sent again, or its last attempt may have taken effect
		}
		rows = append(rows, row{code, true, put})
	}
	for _, row := range rows {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			code, s := row.code, open(t, c)
			tc.refuseChanges(code, row.lost)
			err := row.write(timeout(t, time.Minute), s)
			if row.lost {
				wantFile(t, c, "/a", "made")
			}
			unknown := row.lost && !code.Settles()
			if err == nil || errors.Is(err, client.ErrOutcomeUnknown) != unknown || errors.Is(err, code) == unknown {
				t.Errorf("%s, an earlier answer lost: %t: %v", code, row.lost, err)
			}
			if e, ok := errors.AsType[*lockapi.Error](err); code == client.ErrTooMany && (!ok || e.RetryAfter != 7) {
				t.Errorf("an earlier answer lost: %t: %+v", row.lost, e)
			}
			if over := s.Err() != nil; over != (code == lockapi.CodeSessionNotFound) || over != errors.Is(err, client.ErrSessionExpired) {
				t.Errorf("%s: %v, and the session: %v", code, err, s.Err())
			}
		})
	}
}

// The same holds for the opening of a session.
func TestOpeningRefusedBehindALostAnswer(t *testing.T) {
	for _, code := range []lockapi.Code{client.ErrPermissionDenied, client.ErrUnauthenticated, client.ErrInvalidArgument, client.ErrSessionNotFound, client.ErrNotFound} {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			ctx := timeout(t, time.Minute)
			tc.refuseChanges(code, true)
			if _, err := c.NewSession(ctx); !errors.Is(err, client.ErrOutcomeUnknown) || errors.Is(err, code) {
				t.Errorf("%s: %v", code, err)
			}
		})
	}
}
