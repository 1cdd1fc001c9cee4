package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// prepareCas: all workers increment a counter in one file by compare-and-set.
// One increment, with all its tries, is one operation. A refusal reports the
// current content, so each try is one call.
func prepareCas(ctx context.Context, b *bench, f *field) error {
	f.closed, f.shares, f.tries = true, true, new(atomic.Int64)
	if err := f.openSessions(ctx, b); err != nil {
		return err
	}
	path := nodePath("cas", 0)
	now, err := f.sessions[0].Swap(ctx, path, 0, []byte("0"))
	if err != nil && !errors.Is(err, target.ErrChanged) {
		return err
	}
	for _, s := range f.sessions {
		c := &counter{path: path, now: now, tries: f.tries}
		f.steps = append(f.steps, load.Timed(func(ctx context.Context) error { return c.increment(ctx, s) }))
	}
	return nil
}

// counter is a number in a file, as one of its writers knows it.
type counter struct {
	path  string
	now   target.File
	tries *atomic.Int64 // of all writers
}

// increment tries until it has incremented the number. The number only grows:
// if it goes back, an increment was lost.
func (c *counter) increment(ctx context.Context, s target.Session) error {
	for {
		n, err := strconv.Atoi(string(c.now.Content))
		if err != nil {
			return fmt.Errorf("%s is not a counter: %w", c.path, err)
		}
		c.tries.Add(1)
		got, err := s.Swap(ctx, c.path, c.now.Revision, strconv.AppendInt(nil, int64(n)+1, 10))
		if err != nil && !errors.Is(err, target.ErrChanged) {
			return err
		}
		if later, atoi := strconv.Atoi(string(got.Content)); atoi != nil || later <= n || got.Revision <= c.now.Revision {
			return fmt.Errorf("%s was %d at revision %d and is %.20q at revision %d", c.path, n, c.now.Revision, got.Content, got.Revision)
		}
		c.now = got
		if err == nil {
			return nil
		}
	}
}
