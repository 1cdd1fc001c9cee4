package embed

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/replica/membership"
)

// movedAfter is how long a replica knows no master before it compares its own
// addresses.
const movedAfter = 10 * time.Second

// warnMoved logs a cure if this replica was started at another address than the
// members know. They call the old address, so that no call reaches it.
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

// moved describes how this replica's address in the settings differs from its address
// in the known members; empty if it does not.
func moved(c *config.Config, members []membership.MemberStatus) string {
	own := c.Self()
	for _, m := range members {
		if m.ID == own.ID && m.At != own.RaftAddr {
			return fmt.Sprintf("no contact with a master; the members have address %s for this replica, and its settings have %s: if the replica was moved, "+
				"run `stout member set %s --raft-addr %s --url %s`; else correct its entry in the list of replicas", m.At, own.RaftAddr, own.ID, own.RaftAddr, own.APIURL)
		}
	}
	return ""
}
