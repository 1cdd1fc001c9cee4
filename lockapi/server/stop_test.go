package server_test

import (
	"context"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// A stopping replica ends the calls that wait at the master: they may be sent
// again there.
func TestShutdownReleasesForwardedCalls(t *testing.T) {
	master, replica := startPair(t, nil)
	entered := make(chan struct{})
	master.setHook(func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "cancelled")
	})
	answered := make(chan reply, 1)
	go func() { answered <- call(t, "PUT", replica.url+"/v1/locks/a", `{"session":"s1","wait_ms":600000}`) }()
	<-entered
	if err := replica.server.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	(<-answered).wantCode(t, lockapi.CodeOutcomeUnknown)
}
