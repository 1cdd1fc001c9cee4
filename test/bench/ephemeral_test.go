package main

import (
	"context"
	"os"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// TestMain lets the work ephemeral start this binary as its process that dies.
func TestMain(m *testing.M) {
	if os.Getenv(mortalEnv) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	testrun.Wait(4)
	os.Exit(m.Run())
}

// The files are gone with the last one, and each session's in one change unless
// something else happened in between.
func TestWake(t *testing.T) {
	deleted := func(revision uint64, session, why string) *client.Event {
		return &client.Event{CellEvent: lockapi.CellEvent{Revision: revision, Type: lockapi.EventFileDeleted, Reason: why,
			File: &lockapi.File{FileStat: lockapi.FileStat{Session: session}}}}
	}
	w := wake{left: 6}
	for i, e := range []*client.Event{
		deleted(7, "a", lockapi.ReasonSessionEnded),
		deleted(8, "a", lockapi.ReasonSessionEnded),
		{CellEvent: lockapi.CellEvent{Revision: 9, Type: lockapi.EventMasterChanged}},
		deleted(10, "b", lockapi.ReasonSessionEnded),
		deleted(11, "c", lockapi.ReasonSessionEnded),
		deleted(12, "b", lockapi.ReasonSessionEnded),
		deleted(13, "c", lockapi.ReasonSessionEnded),
	} {
		if done, err := w.hear(e); err != nil || done != (i == 6) {
			t.Errorf("event %d: done %v, %v", i, done, err)
		}
	}
	if got := w.parted(); got != 2 {
		t.Errorf("%d sessions' files ended in several changes, want 2", got)
	}
	for name, e := range map[string]*client.Event{
		"somebody deleted it": deleted(7, "a", lockapi.ReasonDeleted),
		"events were missed":  {Compacted: &lockapi.Compacted{}},
	} {
		if _, err := (&wake{left: 1}).hear(e); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
