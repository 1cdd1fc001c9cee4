package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The heap's room for garbage between two collections. By default Go allows as much
// garbage as there is live memory, stacks included. In a small cell that is little,
// and the collector runs many times a second. With many sessions it is too much.
const (
	leastRoom = 64 << 20               // bytes
	roomShare = 3                      // divides the live memory
	paceEvery = 250 * time.Millisecond // interval for measuring the live memory
)

// gcPercent returns the GOGC for a process with this many bytes of live heap and
// stacks.
func gcPercent(live uint64) int {
	const most = 400
	live = max(live, 1)
	return int(min(100*max(leastRoom, live/roomShare)/live, most))
}

// paceCollector adjusts GOGC to the live memory until ctx ends. It leaves the
// collector alone if the environment sets GOGC. With GOMEMLIMIT it continues: the
// runtime collects earlier when memory nears that limit.
func paceCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	tick := time.NewTicker(paceEvery)
	defer tick.Stop()
	for set := 0; ; {
		metrics.Read(live)
		// SetGCPercent stops the world for a moment: skip small changes.
		if percent := gcPercent(live[0].Value.Uint64() + live[1].Value.Uint64()); percent < set*9/10 || percent > set*11/10 {
			debug.SetGCPercent(percent)
			set = percent
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
