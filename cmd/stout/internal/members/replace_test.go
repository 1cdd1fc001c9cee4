package members

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/fakecell"
	"github.com/stoutlock/stout/lockapi"
)

// A replacement is done when the new directory is alone, and votes.
func TestProgressOfAReplacement(t *testing.T) {
	const id, before, after = "r1", "0123456789abcdef", "00c0ffee00c0ffee"
	voter := func(dir string) lockapi.Member {
		return lockapi.Member{ID: id, Directory: dir, Suffrage: lockapi.SuffrageVoter, Healthy: true}
	}
	joining := func(healthy bool, behind uint64) lockapi.Member {
		return lockapi.Member{ID: id, Directory: after, Suffrage: lockapi.SuffrageNonvoter, Healthy: healthy, Behind: behind}
	}
	other := lockapi.Member{ID: "r2", Directory: after[:15] + "0", Suffrage: lockapi.SuffrageVoter}
	for name, tt := range map[string]struct {
		members []lockapi.Member
		done    bool
		how     string
	}{
		"not begun":    {[]lockapi.Member{voter(before), other}, false, ""},
		"not heard of": {[]lockapi.Member{voter(before), joining(false, 991), other}, false, "the new directory does not answer yet"},
		"behind":       {[]lockapi.Member{joining(true, 2), voter(before), other}, false, "the new directory is 2 entries behind"},
		"nearly":       {[]lockapi.Member{joining(true, 1), other}, false, "the new directory is 1 entry behind"},
		"both vote":    {[]lockapi.Member{voter(before), voter(after), other}, false, "the new directory has the vote; removing the old one"},
		"done":         {[]lockapi.Member{other, voter(after)}, true, "the new directory has the vote; removing the old one"},
		"overtaken":    {[]lockapi.Member{other, voter("1111111111111111")}, false, ""},
	} {
		done, how := progressOf(lockapi.Members{Members: tt.members}, replacement{id: id, directory: after})
		if done != tt.done || how != tt.how {
			t.Errorf("%s: done %v, %q; want %v, %q", name, done, how, tt.done, tt.how)
		}
	}
}

// TestReplaceWithoutAVote: the replacement of a member that stays without a vote
// ends, too.
func TestReplaceWithoutAVote(t *testing.T) {
	r := replacement{id: "r2", directory: "00c0ffee00c0ffee", unvoting: true}
	at := func(directory string, healthy bool, behind uint64) lockapi.Member {
		return lockapi.Member{ID: "r2", Directory: directory, Suffrage: lockapi.SuffrageNonvoter, Healthy: healthy, Behind: behind}
	}
	for name, tt := range map[string]struct {
		members []lockapi.Member
		done    bool
	}{
		"away":           {[]lockapi.Member{at(r.directory, false, 0)}, false},
		"behind":         {[]lockapi.Member{at(r.directory, true, 10_000)}, false},
		"caught up":      {[]lockapi.Member{at(r.directory, true, 1)}, true},
		"beside another": {[]lockapi.Member{at("0123456789abcdef", false, 0), at(r.directory, true, 1)}, false},
	} {
		if done, how := progressOf(lockapi.Members{Members: tt.members}, r); done != tt.done || how == "" {
			t.Errorf("%s: done %v, %q", name, done, how)
		}
	}
}

// TestReplaceTellsWhatItWaitsFor checks that the replica's own status is
// printed regularly while the new directory is missing.
func TestReplaceTellsWhatItWaitsFor(t *testing.T) {
	const before, after = "0123456789abcdef", "00c0ffee00c0ffee"
	list := lockapi.Members{Members: []lockapi.Member{
		{ID: "r2", URL: "http://r2", Directory: before, Suffrage: lockapi.SuffrageVoter},
		{ID: "r2", URL: "http://r2", Directory: after, Suffrage: lockapi.SuffrageNonvoter},
	}}
	for says, at := range map[string]*fakecell.Host{
		"; it reports: its disk is full": {Ready: lockapi.Errorf(lockapi.CodeNoMaster, "its disk is full")},
		"; it is ready":                  {Cell: fakecell.NewView(3, "r1", true)},
		"; it does not answer at http://r2 (connection refused)": {},
	} {
		synctest.Test(t, func(t *testing.T) {
			var told bytes.Buffer
			a := asApp(t, fakecell.Hosts{"r1": {Cell: fakecell.NewView(3, "r1", true), API: map[string]any{lockapi.RouteMembers: list}}, "r2": at}, "http://r1")
			a.UI.Err.To = &told
			ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
			defer cancel()
			_, err := (&replaceMember{members: &members{a}}).awaitReplaced(ctx, replacement{id: "r2", directory: after})
			first, rest, _ := strings.Cut(told.String(), "\n")
			if err == nil || !strings.HasSuffix(first, "does not answer yet") || strings.Count(rest, "does not answer yet"+says+"\n") != 3 {
				t.Errorf("%v; told %q, want %q three times", err, told.String(), says)
			}
		})
	}
}

// Repeating the command before the replica has its new directory does not
// cancel the replacement.
func TestNothingIsTakenBackUnnamed(t *testing.T) {
	var a app.App
	a.Options.Yes = true
	err := (&replaceMember{members: &members{&a}}).cancel(t.Context(), replacement{id: "r1", directory: "0123456789abcdef"}, lockapi.Member{Directory: "00c0ffee00c0ffee"})
	f, ok := errors.AsType[*exit.Failure](err)
	if !ok || f.Code != exit.Failed || !strings.Contains(f.Message, "pending directory 00c0ffee00c0ffee") ||
		!slices.ContainsFunc(f.Hints, func(h string) bool {
			return strings.Contains(h, "stout member replace r1 --directory 0123456789abcdef")
		}) {
		t.Errorf("%+v", err)
	}
}

// A waiting replacement reports that the cell does not answer.
func TestReplaceTellsThatNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told bytes.Buffer
		a := asApp(t, fakecell.Hosts{"r1": {Cell: fakecell.NewView(3, "", false), API: map[string]any{lockapi.RouteMembers: lockapi.Errorf(lockapi.CodeNoMaster, "no master")}}}, "http://r1")
		a.UI.Err.To = &told
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began := time.Now()
		_, err := (&replaceMember{members: &members{a}}).awaitReplaced(ctx, replacement{id: "r2", directory: "00c0ffee00c0ffee"})
		if err == nil || time.Since(began) != 20*time.Second || strings.Count(told.String(), "r2: progress unknown") != 1 {
			t.Errorf("%v; told %q", err, told.String())
		}
	})
}

// A replica of another cell is not made a member: it would do nothing.
func TestNoReplicaOfAnotherCellIsAdded(t *testing.T) {
	for id, refused := range map[string]bool{"a11ce": false, "": false, "b0b": true} {
		synctest.Test(t, func(t *testing.T) {
			a := asApp(t, fakecell.Hosts{
				"r1": {Cell: fakecell.NewView(3, "r1", true), API: map[string]any{lockapi.RouteMembers: lockapi.Members{CellID: "a11ce"}}},
				"r4": {Cell: fakecell.NewView(3, "r1", true), ID: id, API: map[string]any{lockapi.RouteReplica: lockapi.Replica{ID: "r4"}}},
			}, "http://r1")
			err := (&members{a}).notAnothers(t.Context(), lockapi.AddMemberRequest{ID: "r4", URL: "http://r4"})
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), "belongs to another cell, with id b0b; this cell has id a11ce") {
				t.Errorf("%q: %v", id, err)
			}
		})
	}
}
