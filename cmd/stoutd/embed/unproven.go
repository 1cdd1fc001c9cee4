package embed

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

// accessLook is how often is looked whether access is on by now.
const accessLook = time.Second

// warnUnproven says once that access is on while the replicas have no TLS between
// them. It looks until then, or until ctx ends: a replica that has just been
// started may not know it yet, and it may be enabled any time.
func warnUnproven(ctx context.Context, log zerolog.Logger, on func() bool) {
	if !await(ctx, on) {
		return
	}
	log.Warn().Msg("access is on, and the connections between replicas have no TLS: calls that are forwarded " +
		"carry their callers' credentials for everybody to read who reads that traffic, and whoever reaches the " +
		"replicas' port can take a replica's part; give raft-cert, raft-key and raft-ca on all replicas")
}

// await waits until something is so, and reports false where ctx ends before.
func await(ctx context.Context, so func() bool) bool {
	tick := time.NewTicker(accessLook)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
