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

// loseOne drops the answer to the first change, and refuses every later change
// with a code.
func (tc *testCell) loseOne(code lockapi.Code) {
	var lost atomic.Bool
	changes := func(r *http.Request) bool { return r.Method != http.MethodGet }
	tc.set(func() {
		tc.drop = func(r *http.Request) bool {
			return changes(r) && lost.CompareAndSwap(false, true)
		}
		tc.instead = func(r *http.Request) *http.Response {
			if !lost.Load() || !changes(r) {
				return nil
			}
			return refusal(lockapi.Errorf(code, "refused"))
		}
	})
}

// A write that took effect, but lost its answer, never ends as one without
// effect. A refusal of the next attempt is about that attempt only, unless the
// cell remembers the answer under the key.
func TestRefusalsBehindALostAnswer(t *testing.T) {
	for _, code := range lockapi.Codes() {
		switch code {
		case lockapi.CodeNotMaster, lockapi.CodeNoMaster, lockapi.CodeOutcomeUnknown, lockapi.CodeBusy, lockapi.CodeInternal:
			continue // the write is sent again, or its last attempt may have taken effect
		}
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := open(t, c)
			tc.loseOne(code)
			_, err := s.Put(ctx, "/a", []byte("made"))
			wantFile(t, c, "/a", "made")
			if unknown := errors.Is(err, client.ErrOutcomeUnknown); err == nil || unknown == code.Settles() || errors.Is(err, code) == unknown {
				t.Errorf("%s: %v", code, err)
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
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			tc.loseOne(code)
			if _, err := c.NewSession(ctx); !errors.Is(err, client.ErrOutcomeUnknown) || errors.Is(err, code) {
				t.Errorf("%s: %v", code, err)
			}
		})
	}
}
