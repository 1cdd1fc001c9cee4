package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
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

// The same holds for every other change that is sent again. A change that
// removes something may find it gone.
func TestChangesRefusedBehindALostAnswer(t *testing.T) {
	member := lockapi.AddMemberRequest{ID: "r4", Directory: "d1d1d1d1d1d1d1d4", RaftAddr: "r4:1", URL: "http://r4"}
	for name, change := range map[string]struct {
		call func(context.Context, *client.Client) error
		gone bool // it removes something: an answer that it is gone settles it
	}{
		"open": {func(ctx context.Context, c *client.Client) error { return second(c.NewSession(ctx)) }, false},
		"kill": {func(ctx context.Context, c *client.Client) error { return admin.New(c).KillSession(ctx, "S1") }, false},
		"release": {func(ctx context.Context, c *client.Client) error {
			return second(admin.New(c).Release(ctx, "/a", "S1", "h", 0))
		}, true},
		"revoke": {func(ctx context.Context, c *client.Client) error { return admin.New(c).Access().RevokeToken(ctx, "T1") }, true},
		"add":    {func(ctx context.Context, c *client.Client) error { return admin.New(c).AddMember(ctx, member) }, false},
		"remove": {func(ctx context.Context, c *client.Client) error {
			return admin.New(c).RemoveMember(ctx, "r3", lockapi.RemoveMemberRequest{Directory: "d1d1d1d1d1d1d1d3"})
		}, true},
	} {
		for _, code := range []lockapi.Code{client.ErrPermissionDenied, client.ErrUnauthenticated, client.ErrInvalidArgument, client.ErrSessionNotFound, client.ErrNotFound} {
			bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				tc.loseOne(code)
				err := change.call(ctx, c)
				if settled := change.gone && (code == client.ErrNotFound || code == client.ErrSessionNotFound); errors.Is(err, client.ErrOutcomeUnknown) == settled || errors.Is(err, code) != settled {
					t.Errorf("%s, %s: %v", name, code, err)
				}
			})
		}
	}
}
