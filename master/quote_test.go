package master

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// An error quotes only a part of a long session id that the caller made up.
func TestUnknownIDsAreQuotedInPart(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		made := strings.Repeat("é", 30_000)
		for name, call := range map[string]func(context.Context) error{
			"keepalive": func(ctx context.Context) error {
				_, err := m.KeepAlive(ctx, &Caller{}, &lockapi.KeepAlive{Session: made})
				return err
			},
			"read": func(ctx context.Context) error {
				_, err := m.GetSession(ctx, &Read{}, &lockapi.GetSession{Session: made})
				return err
			},
			"stale read": func(ctx context.Context) error {
				_, err := m.GetSession(ctx, &Read{Stale: true}, &lockapi.GetSession{Session: made})
				return err
			},
			"acquire": func(ctx context.Context) error {
				_, err := acquireLock(t, m, "/a", want(made))
				return err
			},
			"release": func(ctx context.Context) error {
				_, err := m.ReleaseLock(ctx, &Caller{}, &lockapi.ReleaseLock{Path: "/a", Session: made})
				return err
			},
			"transfer": func(ctx context.Context) error {
				_, err := m.TransferMastership(ctx, &Caller{}, &lockapi.TransferMastership{TransferRequest: lockapi.TransferRequest{To: made}})
				return err
			},
		} {
			var e *lockapi.Error
			if err := call(t.Context()); !errors.As(err, &e) {
				t.Errorf("%s: %v", name, err)
			} else if !strings.Contains(e.Detail, "éé") || len(e.Detail) > 300 {
				t.Errorf("%s: %d bytes: %.100s", name, len(e.Detail), e.Detail)
			}
		}
	})
}
