package cli

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

// TestJoined: what another replica remembers from before is added where there is no gap
// between, and it is of the same cell.
func TestJoined(t *testing.T) {
	h := lockapi.History{Path: "/a", Events: ends(120, 110), Oldest: 100, Revision: 130}
	older := lockapi.History{Path: "/a", Events: ends(110, 90, 80), Oldest: 50, Revision: 115}
	gap := lockapi.History{Path: "/a", Events: ends(40), Oldest: 10, Revision: 95}
	younger := lockapi.History{Path: "/a", Events: ends(120), Oldest: 115, Revision: 130}
	odd := lockapi.History{Path: "/a", Events: ends(80, 90), Oldest: 5, Revision: 130}
	for name, tt := range map[string]struct {
		others []told
		want   []uint64
		oldest uint64
	}{
		"alone":            {nil, []uint64{120, 110}, 100},
		"one has more":     {[]told{{younger, "x"}, {older, "x"}}, []uint64{120, 110, 90, 80}, 50},
		"a gap":            {[]told{{gap, "x"}}, []uint64{120, 110}, 100},
		"a gap and one":    {[]told{{gap, "x"}, {older, "x"}}, []uint64{120, 110, 90, 80}, 50},
		"not newest first": {[]told{{odd, "x"}, {older, "x"}}, []uint64{120, 110, 90, 80}, 50},
		"another cell":     {[]told{{older, "x"}, {younger, "y"}}, []uint64{120, 110}, 100},
		"one was silent":   {[]told{{}, {older, "x"}}, []uint64{120, 110, 90, 80}, 50},
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

// TestRemembered: replicas that are named by their URLs are asked, and one that hangs
// keeps nobody waiting for long.
func TestRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := func(oldest uint64, all ...uint64) *host {
			return &host{cell: view(3, "r1", true), api: map[string]any{lockapi.RouteHistory: lockapi.History{Path: "/a", Events: ends(all...), Oldest: oldest, Revision: 9}}}
		}
		h := hosts{"r1": past(5, 8, 6), "r2": past(1, 8, 6, 3), "r3": {hung: true}}
		a := asApp(t, h, "http://r1", "http://r2", "http://r3")
		began := time.Now()
		got, err := a.remembered(t.Context(), "/a", 20)
		if err != nil || len(got.Events) != 3 || got.Oldest != 1 || time.Since(began) > probeTimeout {
			t.Errorf("%+v, %v, after %v", got, err, time.Since(began))
		}
	})
}

// TestTellPast: changes of master are told where nobody held it before, and "nothing is
// known" is only said where all was asked for.
func TestTellPast(t *testing.T) {
	turn := lockapi.PastEvent{Revision: 1, Type: lockapi.EventMasterChanged, Master: "r2", Epoch: 7}
	for name, tt := range map[string]struct {
		h        lockapi.History
		says     []string
		saysNone string
	}{
		"a master alone":         {lockapi.History{Events: []lockapi.PastEvent{turn}}, []string{"newest first", "r2 became master, in epoch 7", "Of earlier holders nothing is known"}, "among"},
		"a master before":        {lockapi.History{Events: append(ends(5), turn)}, []string{"s5 (token 0)", "r2 became master, in epoch 7"}, "Of earlier"},
		"before what was wanted": {lockapi.History{Events: append(ends(5, 4, 3), turn)}, []string{"s5 (token 0)", "s4 (token 0)"}, "became master"},
		"more is remembered":     {lockapi.History{Events: []lockapi.PastEvent{{Revision: 2, Type: lockapi.EventLockContended}}, More: true}, []string{"none is among the last 1 event of it"}, "nothing is known"},
	} {
		var out bytes.Buffer
		a := &app{ui: &ui{out: paint(&out, termenv.Ascii), err: paint(io.Discard, termenv.Ascii), width: 200}}
		a.printPast(&explained{History: tt.h}, 2)
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
	if got := whatIf(&explained{stale: true, Lock: lockapi.Lock{Holders: []lockapi.Holder{{}}}}); !strings.Contains(got, "which begins anew with a master where there is none now") {
		t.Errorf("%q", got)
	}
	a := &app{}
	none := &failure{code: exitNoMaster, message: "no"}
	f, ok := errors.AsType[*failure](a.orStale(none, false))
	if !ok || len(f.hints) != 1 || !strings.HasPrefix(f.hints[0], "--stale ") {
		t.Errorf("%+v", f)
	}
	if err := a.orStale(&failure{code: exitUnreachable}, false); len(err.(*failure).hints) > 0 {
		t.Errorf("nobody answers: %+v", err)
	}
}

// TestWhyClosed: where nobody is known, a session that was killed looks as one that was
// closed by its program, and that is said.
func TestWhyClosed(t *testing.T) {
	for _, tt := range []struct{ by, principal, want string }{
		{"", "", "its session was closed, by its program or by whoever killed it"},
		{"anonymous", "anonymous", "its session was closed, by its program or by whoever killed it"},
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
			a := asApp(t, hosts{"r1": {cell: view(3, "r1", true), api: map[string]any{lockapi.RouteSessions + "/S": s}}}, "http://r1")
			a.ui = &ui{out: paint(&out, termenv.Ascii)}
			if err := a.showSession(t.Context(), "S", nil); err != nil || !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
				t.Errorf("%v: %s", err, out.String())
			}
		}
	})
}
