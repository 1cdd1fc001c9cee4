package cli

import (
	"io"
	"slices"
	"testing"

	"github.com/muesli/termenv"

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
		"a good bit":        {lockapi.Replica{Healthy: true, AppliedIndex: newest - largeLag}, false, []string{"ok", "936", "64", "-"}},
		"far behind":        {lockapi.Replica{Healthy: true, AppliedIndex: newest - largeLag - 1}, false, []string{"ok", "935", "*65*", "-"}},
		"new and empty":     {lockapi.Replica{Healthy: true}, false, []string{"ok", "0", "*1000*", "-"}},
		"down":              {lockapi.Replica{AppliedIndex: 960, Promise: promise}, false, []string{"DOWN", "960", "-", "-"}},
		"another directory": {lockapi.Replica{AppliedIndex: 960}, true, []string{"OUT", "960", "-", "-"}},
		"down, not known":   {lockapi.Replica{}, false, []string{"DOWN", "-", "-", "-"}},
	}
	a := &app{ui: &ui{out: paint(io.Discard, termenv.Ascii)}}
	a.ui.out.Warn = func(s ...string) string { return "*" + s[0] + "*" }
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := a.replicaRow(tt.replica, newest, finding{outside: tt.outsider})[2:6]; !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
