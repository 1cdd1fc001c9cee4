package peers

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Records about former members are deleted.
func TestRemovedMembersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		o := New(time.Second, func() time.Duration { return time.Since(began) })
		known := func() string { return fmt.Sprint(slices.Sorted(maps.Keys(o.all))) }
		o.Look(t.Context(), &respondent{}, "r1", []lockapi.Replica{{ID: "r1"}, {ID: "r2"}, {ID: "r3"}})
		if got := known(); got != "[r2 r3]" {
			t.Fatalf("records of %s", got)
		}
		o.Forget([]lockapi.Replica{{ID: "r1"}, {ID: "r3"}})
		if got := known(); got != "[r3]" {
			t.Errorf("without r2 there are records of %s", got)
		}
	})
}
