package peers

import (
	"fmt"
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
		known := func() string {
			return fmt.Sprint(len(o.contacts.last), len(o.asked.last), len(o.clocks.rates), o.asked.last["r3"] != nil, o.clocks.rates["r3"] != nil)
		}
		o.Look(t.Context(), &respondent{}, "r1", []lockapi.Replica{{ID: "r1"}, {ID: "r2"}, {ID: "r3"}})
		if got := known(); got != "2 2 0 true false" { // the respondent claims to be r2 and shows no clock
			t.Fatalf("of r2 and r3 is known %s", got)
		}
		o.clocks.of("r2")
		o.clocks.of("r3")
		o.Forget([]lockapi.Replica{{ID: "r1"}, {ID: "r3"}})
		if got := known(); got != "1 1 1 true true" {
			t.Errorf("without r2 is known %s", got)
		}
	})
}
