package main

import (
	"context"

	"github.com/stoutlock/stout/test/bench/internal/report"
)

// soakSessions keep a small cell busy without ever waiting for one another.
const soakSessions = 64

// runSoak is one long run of cycles. Its row counts the elections, of which
// there must be none.
func runSoak(ctx context.Context, b *bench) error {
	ns := b.sessions
	if len(ns) == 0 {
		ns = []int{soakSessions}
	}
	for _, via := range b.via {
		for _, n := range ns {
			for _, rate := range b.ratesOrClosed() {
				plan := b.plan(rate)
				plan.Duration = b.soak
				row := report.Row{Work: "soak", Via: via, SharedClient: b.shared, Sessions: n, Offered: rate, Runs: 1}
				if err := b.measure(ctx, row, prepareCycle, plan); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
