package main

import "context"

// soakSessions is a number of sessions that keeps a small cell busy; they never
// wait for one another.
const soakSessions = 64

// runSoak is one long run of cycles. Its row counts the elections, which must
// not happen.
func runSoak(ctx context.Context, b *bench) error {
	long := *b.settings
	long.runs, long.duration = 1, b.soak
	one := *b
	one.settings = &long
	return looped("soak", prepareCycle, soakSessions)(ctx, &one)
}
