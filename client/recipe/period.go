package recipe

import (
	"context"
	"errors"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// EachPeriod does a job once in each period, on one of the machines that call
// it, until ctx or the session ends: at the beginning of the period, as this
// machine's clock has it, or when a first machine is there for it. Periods are
// counted from Go's zero time: days begin at midnight, UTC.
//
// The machines wait for the lock at path, and whoever gets it looks in the file
// at path which period was done last. The job gets the beginning of its period,
// and a context that ends with the hold; held's token is for what it writes to.
// It counts as done once it has returned nil: where it fails, or its machine
// dies, the next in the queue does it. So it may be begun more than once, never
// twice at a time by those who heed the context, and is not done again by a
// machine whose clock is behind.
func EachPeriod(ctx context.Context, s *client.Session, path string, period time.Duration, job func(ctx context.Context, begins time.Time, held *client.Held) error) error {
	if period <= 0 {
		return errors.New("recipe: the period is not above zero")
	}
	if err := lockapi.ValidatePath(path); err != nil {
		return err
	}
	ctx, end := whileOpen(ctx, s)
	defer end()
	p := periodic{s: s, job: job}
	for ctx.Err() == nil {
		var next time.Time
		err := s.Do(ctx, path, func(under context.Context, held *client.Held) error {
			begins := time.Now().UTC().Truncate(period) // now: the wait may have taken several
			next = begins.Add(period)
			return p.do(ctx, under, held, begins)
		})
		if err != nil { // the next in the queue may be luckier, or this one, later
			next = time.Now().Add(again)
		}
		pause(ctx, time.Until(next))
	}
	return context.Cause(ctx)
}

// periodic is one call of EachPeriod.
type periodic struct {
	s    *client.Session
	job  func(context.Context, time.Time, *client.Held) error
	done time.Time // the period of which this machine has done the job last
}

// do does the job of a period under the lock, unless it is done. What it has
// done and could not write down it does not do again.
func (p *periodic) do(ctx, under context.Context, held *client.Held, begins time.Time) error {
	file, _, err := find(under, p.s.Client(), held.Path())
	if err != nil {
		return err
	}
	if file != nil {
		// What is no time is a file that is none of ours: it is done again,
		// rather than never.
		done, err := time.Parse(time.RFC3339Nano, string(file.Content))
		if err == nil && !done.Before(begins) {
			return nil
		}
	}
	if p.done.Before(begins) {
		if err := p.job(under, begins, held); err != nil {
			return err
		}
		p.done = begins
	}
	ctx, cancel := outlast(ctx)
	defer cancel()
	_, err = p.s.Put(ctx, held.Path(), []byte(begins.Format(time.RFC3339Nano)), client.While(held))
	return err
}
