package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The room that the heap has for garbage between two collections. By default Go
// gives it as much as is live, stacks included: that is little in a small cell,
// where the collector then runs many times a second, and too much in one that
// has many sessions.
const (
	leastRoom = 64 << 20               // bytes
	roomShare = 3                      // one part in this many of what is live
	paceEvery = 250 * time.Millisecond // what is live may have grown by then
)

// gcPercent is the GOGC for a process with this many bytes of heap and stacks
// in use.
func gcPercent(live uint64) int {
	const most = 400
	live = max(live, 1)
	return int(min(100*max(leastRoom, live/roomShare)/live, most))
}

// paceCollector sets the collector's pace by what is live, until ctx ends. It
// leaves the collector alone where the environment says how it is to run.
func paceCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	tick := time.NewTicker(paceEvery)
	defer tick.Stop()
	for set := 0; ; {
		metrics.Read(live)
		// To set it stops the world for a moment: not for every small change.
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
