package main

import (
	"context"
	"net/http"
	"os/exec"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestWatchCountsWhatWasStartedAgain: a cell has not ended while one of its
// replicas runs that was restarted with the command that watch prints.
func TestWatchCountsWhatWasStartedAgain(t *testing.T) {
	testrun.E2E(t)
	c := cell.New(t, cell.Options{Size: 2})
	w := &watcher{cell: c, gone: map[string]bool{}}
	first, second := c.Replicas()[0], c.Replicas()[1]
	looks := func(when string) {
		t.Helper()
		if err := w.look(t.Context()); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	kill := func(r *cell.Replica) {
		t.Helper()
		must(t, r.Kill())
	}
	looks("both run")
	kill(first)
	looks("one has ended")
	again := exec.CommandContext(t.Context(), "sh", "-c", "exec "+commandLine(first))
	must(t, again.Start())
	t.Cleanup(func() { _ = again.Wait() }) // the end of t.Context has killed it
	err := cell.Wait(cell.Bounded(t), "it is back", func(ctx context.Context) error {
		_, err := first.Call(ctx, http.MethodGet, lockapi.RouteLive, nil, nil)
		return err
	})
	must(t, err)
	kill(second)
	looks("each has ended once, one is back")
	if got := startedElsewhere(t.Context(), c); len(got) != 1 || got[0] != first.ID {
		t.Errorf("started elsewhere: %q, not %s alone", got, first.ID)
	}
	must(t, again.Process.Kill())
	_ = again.Wait()
	if w.look(t.Context()) == nil {
		t.Error("all have ended, and watch continues")
	}
}
