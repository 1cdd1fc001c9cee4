package main

import "context"

// soakSessions keep a small cell busy without ever waiting for one another.
const soakSessions = 64

// runSoak is one long run of cycles. Its row counts the elections, of which
// there must be none.
func runSoak(ctx context.Context, b *bench) error {
	long := *b.settings
	long.runs, long.duration = 1, b.soak
	one := *b
	one.settings = &long
	return looped("soak", prepareCycle, soakSessions)(ctx, &one)
}
