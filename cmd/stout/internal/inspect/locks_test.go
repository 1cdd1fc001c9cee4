package inspect

import (
	"bytes"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

// Holders that the cell counts but does not show count here as well.
func TestHoldersThatAreNotShown(t *testing.T) {
	var out bytes.Buffer
	a := &locks{&app.App{UI: &ui.UI{Out: ui.NewStream(&out, termenv.Ascii)}}}
	l := lockapi.Lock{Path: "/a", State: lockapi.StateHeld, Mode: lockapi.Shared, Limit: 5000, Holders: make([]lockapi.Holder, 12), MoreHolders: 1000}
	if mode := a.lockRows([]lockapi.Lock{l})[0][2]; mode != "shared 1012/5000" {
		t.Errorf("mode %q", mode)
	}
	a.showHolders(l)
	if got := out.String(); strings.Count(got, "is held by") != mostHolders || !strings.HasSuffix(got, "and 1002 holders more\n") {
		t.Errorf("%s", got)
	}
}
