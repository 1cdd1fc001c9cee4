package admin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func TestHistory(t *testing.T) {
	event := func(revision uint64, path string) lockapi.PastEvent {
		e := lockapi.PastEvent{Revision: revision, Type: lockapi.EventLockAcquired, Path: path}
		if path == "" {
			e.Type = lockapi.EventMasterChanged
		}
		return e
	}
	of := func(path string, all ...lockapi.PastEvent) lockapi.History {
		return lockapi.History{Path: path, Events: all, Oldest: 1, Revision: 9}
	}
	for _, c := range []struct {
		answer lockapi.History
		wrong  string
	}{
		{of("/a", event(7, "/a"), event(6, ""), event(3, "/a")), ""},
		{of("/a"), ""},
		{of("/b", event(7, "/b")), `the history of "/b"`},
		{of("/a", event(7, "/b")), `an event of "/b"`},
		{of("/a", event(3, "/a"), event(7, "/a")), "newest first"},
	} {
		got, err := adminOf(t, &scripted{body: map[string]any{"GET /v1/history": c.answer}}).History(t.Context(), "/a", 3)
		switch {
		case c.wrong == "" && (err != nil || len(got.Events) != len(c.answer.Events) || got.Oldest != 1):
			t.Errorf("%+v: %+v, %v", c.answer, got, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%+v: %v; want it to say %s", c.answer, err, c.wrong)
		}
	}
	if _, err := adminOf(t, &scripted{}).History(t.Context(), "a", 0); !errors.Is(err, client.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestDeadlocks(t *testing.T) {
	want := lockapi.Deadlocks{Deadlocks: []lockapi.Deadlock{{Links: []lockapi.DeadlockLink{{Session: "s", Path: "/a"}}}}}
	if got, err := adminOf(t, &scripted{body: map[string]any{"GET /v1/deadlocks": want}}).Deadlocks(t.Context()); err != nil || len(got) != 1 || got[0].Links[0].Session != "s" {
		t.Errorf("%+v, %v", got, err)
	}
	want.Deadlocks[0].Links = nil
	if _, err := adminOf(t, &scripted{body: map[string]any{"GET /v1/deadlocks": want}}).Deadlocks(t.Context(), client.Stale()); err == nil || !strings.Contains(err.Error(), "an empty deadlock cycle") {
		t.Error(err)
	}
}
