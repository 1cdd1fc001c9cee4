package embed

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/replica/membership"
)

// movedAfter is how long a replica hears of no master before it looks at its own
// addresses.
const movedAfter = 10 * time.Second

// warnMoved says what to tell the cell where this replica was started at another
// address than the members know: they call the old one, and it hears nothing.
func warnMoved(ctx context.Context, log zerolog.Logger, c *config.Config, known func() bool, members func() []membership.MemberStatus) {
	t := time.NewTimer(movedAfter)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return
	}
	if known() {
		return
	}
	if why := moved(c, members()); why != "" {
		log.Warn().Msg(why)
	}
}

// moved is how the settings have another address for this replica than the members
// that it knows of, or nothing.
func moved(c *config.Config, members []membership.MemberStatus) string {
	for _, own := range c.Replicas {
		if own.ID != c.ID {
			continue
		}
		for _, m := range members {
			if m.ID == c.ID && m.At != own.RaftAddr {
				return fmt.Sprintf("no master is heard, and the members have this replica at %s, not at %s as its settings do: if it was moved, "+
					"tell them by `stout member set %s --raft-addr %s --url %s`; else mend its entry in the list of replicas", m.At, own.RaftAddr, c.ID, own.RaftAddr, own.APIURL)
			}
		}
	}
	return ""
}
