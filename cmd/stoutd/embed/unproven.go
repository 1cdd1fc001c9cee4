package embed

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

// accessLook is the interval of checks whether access is on.
const accessLook = time.Second

// warnUnproven logs once that access is on without TLS between the replicas. It checks
// until then, or until ctx ends: a replica may not know it just after its start, and
// access can be enabled at any time.
func warnUnproven(ctx context.Context, log zerolog.Logger, on func() bool) {
	if !await(ctx, on) {
		return
	}
	log.Warn().Msg("access is on without TLS between replicas: forwarded calls show their callers' credentials to any reader " +
		"of that traffic, and any program that reaches the replicas' port can act as a replica; " +
		"give raft-cert, raft-key and raft-ca on all replicas")
}

// await waits until so returns true. It returns false if ctx ends before.
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
