package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/fakecell"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

// ends are releases at /a of these revisions.
func ends(revisions ...uint64) []lockapi.PastEvent {
	var out []lockapi.PastEvent
	for _, r := range revisions {
		out = append(out, lockapi.PastEvent{Revision: r, Type: lockapi.EventLockReleased, Path: "/a", SessionName: fmt.Sprint("s", r), Reason: lockapi.ReasonReleased})
	}
	return out
}

// TestJoined checks that older events of another replica are added if there is
// no gap and the cell is the same.
func TestJoined(t *testing.T) {
	h := lockapi.History{Path: "/a", Events: ends(120, 110), Oldest: 100, Revision: 130}
	older := lockapi.History{Path: "/a", Events: ends(110, 90, 80), Oldest: 50, Revision: 115}
	gap := lockapi.History{Path: "/a", Events: ends(40), Oldest: 10, Revision: 95}
	younger := lockapi.History{Path: "/a", Events: ends(120), Oldest: 115, Revision: 130}
	odd := lockapi.History{Path: "/a", Events: ends(80, 90), Oldest: 5, Revision: 130}
	for name, tt := range map[string]struct {
		others []part
		want   []uint64
		oldest uint64
	}{
		"alone":            {nil, []uint64{120, 110}, 100},
		"one has more":     {[]part{{younger, "x"}, {older, "x"}}, []uint64{120, 110, 90, 80}, 50},
		"a gap":            {[]part{{gap, "x"}}, []uint64{120, 110}, 100},
		"a gap and one":    {[]part{{gap, "x"}, {older, "x"}}, []uint64{120, 110, 90, 80}, 50},
		"not newest first": {[]part{{odd, "x"}, {older, "x"}}, []uint64{120, 110, 90, 80}, 50},
		"another cell":     {[]part{{older, "x"}, {younger, "y"}}, []uint64{120, 110}, 100},
		"one was silent":   {[]part{{}, {older, "x"}}, []uint64{120, 110, 90, 80}, 50},
	} {
		got := joined(h, tt.others)
		var revisions []uint64
		for _, e := range got.Events {
			revisions = append(revisions, e.Revision)
		}
		if !slices.Equal(revisions, tt.want) || got.Oldest != tt.oldest {
			t.Errorf("%s: %v since %d", name, revisions, got.Oldest)
		}
	}
}

// TestRemembered checks that replicas named by URL are asked, and that a
// hanging one causes only a short delay.
func TestRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := func(oldest uint64, all ...uint64) *fakecell.Host {
			return &fakecell.Host{Cell: fakecell.NewView(3, "r1", true), API: map[string]any{lockapi.RouteHistory: lockapi.History{Path: "/a", Events: ends(all...), Oldest: oldest, Revision: 9}}}
		}
		h := fakecell.Hosts{"r1": past(5, 8, 6), "r2": past(1, 8, 6, 3), "r3": {Hangs: true}}
		a := asApp(t, h, "http://r1", "http://r2", "http://r3")
		began := time.Now()
		got, err := (&explainer{a}).remembered(t.Context(), "/a", 20)
		if err != nil || len(got.Events) != 3 || got.Oldest != 1 || time.Since(began) > survey.ProbeTimeout {
			t.Errorf("%+v, %v, after %v", got, err, time.Since(began))
		}
	})
}

// TestTellPast checks that changes of master are shown even without an earlier
// holder, and that "no earlier holder is known" is printed only after a
// complete read.
func TestTellPast(t *testing.T) {
	turn := lockapi.PastEvent{Revision: 1, Type: lockapi.EventMasterChanged, Master: "r2", Epoch: 7}
	for name, tt := range map[string]struct {
		h        lockapi.History
		says     []string
		saysNone string
	}{
		"a master alone":         {lockapi.History{Events: []lockapi.PastEvent{turn}}, []string{"newest first", "r2 became master, in epoch 7", "No earlier holder is known"}, "include"},
		"a master before":        {lockapi.History{Events: append(ends(5), turn)}, []string{"s5 (token 0)", "r2 became master, in epoch 7"}, "earlier holder"},
		"before what was wanted": {lockapi.History{Events: append(ends(5, 4, 3), turn)}, []string{"s5 (token 0)", "s4 (token 0)"}, "became master"},
		"more is remembered":     {lockapi.History{Events: []lockapi.PastEvent{{Revision: 2, Type: lockapi.EventLockContended}}, More: true}, []string{"Its last 1 event include no earlier holder"}, "is known"},
	} {
		var out bytes.Buffer
		a := &app.App{UI: &ui.UI{Out: ui.NewStream(&out, termenv.Ascii), Err: ui.NewStream(io.Discard, termenv.Ascii), Width: 200}}
		(&explainer{a}).printPast(&explained{History: tt.h}, 2)
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range tt.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q does not say %q", name, text, want)
			}
		}
		if strings.Contains(text, tt.saysNone) {
			t.Errorf("%s: %q says %q", name, text, tt.saysNone)
		}
	}
}

// TestExplainWithoutMaster: nothing expires then, and --stale is named.
func TestExplainWithoutMaster(t *testing.T) {
	if got := whatIf(&explained{stale: true, Lock: lockapi.Lock{Holders: []lockapi.Holder{{}}}}); !strings.Contains(got, "counted from the next election if the cell has no master now") {
		t.Errorf("%q", got)
	}
	a := &app.App{}
	none := exit.Errorf(exit.NoMaster, "no")
	f, ok := errors.AsType[*exit.Failure]((&explainer{a}).orStale(none))
	if !ok || len(f.Hints) != 1 || !strings.HasPrefix(f.Hints[0], "--stale ") {
		t.Errorf("%+v", f)
	}
	if err := (&explainer{a}).orStale(&exit.Failure{Code: exit.Unreachable}); len(err.(*exit.Failure).Hints) > 0 {
		t.Errorf("nobody answers: %+v", err)
	}
}

// TestWhyClosed checks that without principals the text does not distinguish a
// killed session from a closed one.
func TestWhyClosed(t *testing.T) {
	for _, tt := range []struct{ by, principal, want string }{
		{"", "", "its session was closed, by its program or by an operator"},
		{"anonymous", "anonymous", "its session was closed, by its program or by an operator"},
		{"user:a", "user:a", "closed"},
		{"user:b", "user:a", "closed by user:b"},
	} {
		if got := (&explained{}).why(lockapi.PastEvent{Reason: lockapi.ReasonSessionClosed, By: tt.by, Principal: tt.principal}); got != tt.want {
			t.Errorf("by %q, of %q: %q", tt.by, tt.principal, got)
		}
	}
}

// TestSessionWithoutMaster: what is left of a lease only the master knows; a ttl is not
// shown as that.
func TestSessionWithoutMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[int64]string{-1: "ttl 10m00s", 5000: "lease 5s of 10m00s left"} {
			s := lockapi.SessionState{Session: lockapi.Session{ID: "S", Name: "n", TTLMS: 600_000}}
			if left >= 0 {
				s.LeaseRemainingMS = &left
			}
			var out bytes.Buffer
			a := &app.App{UI: &ui.UI{Out: ui.NewStream(&out, termenv.Ascii)}}
			if (&sessions{a}).printSession(s); !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
				t.Errorf("%s", out.String())
			}
		}
	})
}

// The sequel of a running lock-delay is in the future tense, and the sequel of
// a possible death in the conditional.
func TestWhatIf(t *testing.T) {
	next := lockapi.Waiter{SessionName: "next", Mode: lockapi.Exclusive}
	for want, l := range map[string]lockapi.Lock{
		"After the lock-delay, the lock will be free.": {DelayRemainingMS: 1},
		"After the lock-delay, next will get it.":      {DelayRemainingMS: 1, Waiters: 1, Queue: []lockapi.Waiter{next}},
		"If the holder died now, its session would expire after its ttl, and then next would get it.": {
			Holders: []lockapi.Holder{{}}, Waiters: 1, Queue: []lockapi.Waiter{next},
		},
	} {
		if got := whatIf(&explained{Lock: l}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
