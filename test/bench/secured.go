package main

import (
	"context"
	"errors"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// securedSessions are the numbers of sessions of the work secured.
var securedSessions = []int{64, 256}

// runSecured runs the same load in the plain cell and in one with TLS and
// access control, in turn.
func runSecured(ctx context.Context, b *bench) (err error) {
	other := *b
	other.cell, err = target.Open(ctx, target.Options{Binary: b.stoutd, Args: b.stoutdArgs, Secure: true, Access: true, Rules: b.rules})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.cell.Close()) }()
	for _, w := range []struct {
		name string
		p    prepare
	}{{"cycle", prepareCycle}, {"read", prepareRead}} {
		err := b.each(securedSessions, func(via string, n int) error {
			plain, secured := b.side(w.name, via, n), other.side(w.name+", secured", via, n)
			if err := plain.measure(ctx, w.p, b.plan(0), secured); err != nil {
				return err
			}
			secured.row.Loop.OfPlain = ratios(secured.sum.rate, plain.sum.rate)
			b.add(plain.row)
			b.add(secured.row)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ratios returns the ratios of the runs, pair by pair.
func ratios(of, to []float64) load.Spread {
	var out []float64
	for i := range of {
		if to[i] > 0 {
			out = append(out, of[i]/to[i])
		}
	}
	return load.SpreadOf(out)
}
