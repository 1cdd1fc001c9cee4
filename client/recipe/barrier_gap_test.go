package recipe

import (
	"testing"

	"github.com/stoutlock/stout/client"
)

// TestMeetAfterGap: after missed events, arrivals are reported before
// departures. Both together do not complete a meeting.
func TestMeetAfterGap(t *testing.T) {
	g := gathering{dir: "/m/", n: 2, there: make(map[string]bool)}
	here := new(client.File)
	for i, step := range []struct {
		change client.FileChange
		all    bool
	}{
		{client.FileChange{Path: "/m/a", File: here, Listed: true}, false},
		{client.FileChange{Synced: true}, false},
		{client.FileChange{Path: "/m/deep/x", File: here}, false},
		{client.FileChange{Path: "/m/b", File: here, Listed: true}, false},
		{client.FileChange{Path: "/m/a", Listed: true}, false},
		{client.FileChange{Synced: true}, false},
		{client.FileChange{Path: "/m/c", File: here}, true},
	} {
		if over, all := g.note(&step.change); over || all != step.all {
			t.Errorf("step %d: over %t, all are there %t", i, over, all)
		}
	}
	if over, _ := g.note(&client.FileChange{Path: "/m/" + ready, File: here}); !over {
		t.Error("it is not over")
	}
}
