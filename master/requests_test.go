package master

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// TestCallersAreInTheLog: each command has the principal of its call, also when
// it cleans up after that call. It has none when the master acts unasked.
func TestCallersAreInTheLog(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		ctx := t.Context()
		as := func(who string) Caller { return Caller{Principal: who, RemoteAddr: "192.0.2.1:4711"} }
		s, err := m.OpenSession(ctx, new(as("opens")), &lockapi.OpenSession{SessionRequest: lockapi.NewSessionRequest()})
		must(t, err)
		other := newSession(t, m, time.Second)
		mustHold(t, m, "/a", want(other, delayed(time.Second)))
		if _, err := m.AcquireLock(ctx, new(as("tries")), &lockapi.AcquireLock{Path: "/a", LockRequest: want(s.ID, waiting(100*time.Millisecond))}); err == nil {
			t.Error("got what is held")
		}
		left, leave := context.WithTimeout(ctx, 100*time.Millisecond)
		defer leave()
		_, _ = m.AcquireLock(left, new(as("leaves")), &lockapi.AcquireLock{Path: "/a", LockRequest: want(s.ID, waiting(time.Minute))})
		pass(5 * time.Second) // until the other session expires and its lock-delay ends
		mustHold(t, m, "/a", want(s.ID))
		if r, err := m.ReleaseLock(ctx, new(as("releases")), &lockapi.ReleaseLock{Path: "/a", Session: s.ID}); err != nil || !r.Released {
			t.Errorf("%+v, %v", r, err)
		}
		if err := m.CloseSession(ctx, new(as("closes")), &lockapi.CloseSession{Session: s.ID}); err != nil {
			t.Error(err)
		}
		for who, ops := range map[string][]string{
			"opens": {"open-session"}, "tries": {"acquire", "withdraw"}, "leaves": {"acquire", "withdraw"},
			"releases": {"release"}, "closes": {"close-session"},
		} {
			if got := n.proposedBy(who); !slices.Equal(got, ops) {
				t.Errorf("%q has operations %v in the log, want %v", who, got, ops)
			}
		}
		unasked := n.proposedBy("")
		for _, op := range []string{"expire-session", "end-delay"} {
			if !slices.Contains(unasked, op) {
				t.Errorf("the log has operations %v without a principal, want %s among them", unasked, op)
			}
		}
	})
}

// proposedBy returns the commands that n has proposed for a principal.
func (n *node) proposedBy(principal string) (ops []string) {
	for _, b := range n.sent() {
		for _, c := range b.Commands {
			if c.Caller == principal {
				ops = append(ops, state.Name(c.Operation))
			}
		}
	}
	return ops
}
