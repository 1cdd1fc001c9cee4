package replica

import (
	"context"
	"strings"
	"testing"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
)

// TestNameOfAMemberElsewhere: a replica joins with the name of a member that
// has another address. It reports that, because a replacement would wait for it
// there.
func TestNameOfAMemberElsewhere(t *testing.T) {
	t.Parallel()
	o := options(t, 1)[0]
	at := "10.0.0.9:7201"
	o.Join = func(context.Context) ([]membership.Member, error) {
		return []membership.Member{{ID: "r1", RaftAddr: at}}, nil
	}
	c, err := Prepare(o)
	must(t, err)
	defer c.Close()
	for _, tc := range []struct {
		at     string
		member bool
		says   bool
	}{{at, true, true}, {at, false, false}, {o.RaftListen, true, false}} {
		at = tc.at
		if _, err := c.host.others(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.note(admission.Decision{Step: admission.Outsider, Member: tc.member, Why: "why"})
		now := c.Standby()
		if got := strings.Contains(now.Why, "that member is at "+at) && strings.Contains(now.Why, "stout member set r1 --raft-addr "+o.RaftListen); got != tc.says {
			t.Errorf("%+v: %+v", tc, now)
		}
	}
}
