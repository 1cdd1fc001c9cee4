package members

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

// TestMembersOnATerminal checks that 80 columns show health, lag and release,
// and distinguish the two directories during a replacement.
func TestMembersOnATerminal(t *testing.T) {
	list := lockapi.Members{}
	for i := range 3 {
		list.Members = append(list.Members, lockapi.Member{
			ID: fmt.Sprintf("r%d", i+1), Directory: fmt.Sprintf("%016x", i+1), RaftAddr: "10.0.0.11:7201", URL: "http://10.0.0.11:7101",
			Suffrage: lockapi.SuffrageNonvoter, Role: lockapi.RoleReplica, Healthy: true, Behind: 123, Version: "v1.10.0",
		})
	}
	show := func() string {
		var out bytes.Buffer
		a := &app.App{UI: &ui.UI{Out: ui.NewStream(&out, termenv.Ascii), Width: ui.PageWidth}}
		a.UI.Table(memberColumns(list), memberRows(a, list.Members))
		for line := range strings.Lines(out.String()) {
			if len(line) > ui.PageWidth+1 {
				t.Errorf("%d columns: %s", len(line)-1, line)
			}
		}
		return out.String()
	}
	if got := show(); !strings.Contains(got, "VERSION") || !strings.Contains(got, "v1.10.0") || !strings.Contains(got, "123") {
		t.Errorf("\n%s", got)
	}
	list.Members[0].Healthy = false
	list.Members[1].Healthy, list.Members[1].Version = false, ""
	if got := show(); strings.Count(got, "no master") != 1 || strings.Count(got, "DOWN") != 1 || strings.Count(got, " ok ") != 1 {
		t.Errorf("\n%s", got)
	}
	list.Members[2].ID = "r2"
	if got := show(); !strings.Contains(got, "0000000000000003") {
		t.Errorf("\n%s", got)
	}
}
