package inspect

import (
	"io"
	"slices"
	"testing"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

func TestReplicaRow(t *testing.T) {
	const newest = 1000
	promise := &lockapi.Promise{To: "r1", RemainingMS: 1800}
	tests := map[string]struct {
		replica  lockapi.Replica
		outsider bool
		want     []string // health, applied, lag, promise
	}{
		"level":             {lockapi.Replica{Healthy: true, AppliedIndex: newest, Promise: promise}, false, []string{"ok", "1000", "0", "r1 1.8s"}},
		"one behind":        {lockapi.Replica{Healthy: true, AppliedIndex: newest - 1}, false, []string{"ok", "999", "1", "-"}},
		"a good bit":        {lockapi.Replica{Healthy: true, AppliedIndex: newest - survey.LargeLag}, false, []string{"ok", "936", "64", "-"}},
		"far behind":        {lockapi.Replica{Healthy: true, AppliedIndex: newest - survey.LargeLag - 1}, false, []string{"ok", "935", "*65*", "-"}},
		"new and empty":     {lockapi.Replica{Healthy: true}, false, []string{"ok", "0", "*1000*", "-"}},
		"down":              {lockapi.Replica{AppliedIndex: 960, Promise: promise}, false, []string{"DOWN", "960", "-", "-"}},
		"another directory": {lockapi.Replica{AppliedIndex: 960}, true, []string{"OUT", "960", "-", "-"}},
		"down, not known":   {lockapi.Replica{}, false, []string{"DOWN", "-", "-", "-"}},
	}
	a := &showStatus{App: &app.App{UI: &ui.UI{Out: ui.NewStream(io.Discard, termenv.Ascii)}}}
	a.UI.Out.Warn = func(s ...string) string { return "*" + s[0] + "*" }
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := a.replicaRow(tt.replica, newest, survey.Finding{Foreign: tt.outsider})[2:6]; !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
