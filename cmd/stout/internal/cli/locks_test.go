package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/lockapi"
)

// Holders that the cell counts but does not show count here as well.
func TestHoldersThatAreNotShown(t *testing.T) {
	var out bytes.Buffer
	a := &listLocks{app: &app{ui: &ui{out: paint(&out, termenv.Ascii)}}}
	l := lockapi.Lock{Path: "/a", State: lockapi.StateHeld, Mode: lockapi.Shared, Limit: 5000, Holders: make([]lockapi.Holder, 12), MoreHolders: 1000}
	if mode := a.lockRows([]lockapi.Lock{l})[0][2]; mode != "shared 1012/5000" {
		t.Errorf("mode %q", mode)
	}
	if got := inTheWay("/a", l.Holders[:1], 0, 0); strings.Contains(got, "1 holder") {
		t.Errorf("one holder goes by its name: %q", got)
	}
	for more, want := range map[int]string{0: "/a has 12 holders", 1000: "/a has 1012 holders"} {
		if got := inTheWay("/a", l.Holders, more, 0); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	a.showHolders(l)
	if got := out.String(); strings.Count(got, "is held by") != mostHolders || !strings.HasSuffix(got, "and 1002 holders more\n") {
		t.Errorf("%s", got)
	}
}
