package recipe

import (
	"context"
	"errors"
	"time"

	"github.com/stoutlock/stout/client"
)

// EachPeriod runs a job once in each period, on one of the machines that call
// it, until ctx ends or the cell refuses. The job runs at the beginning of the
// period, by this machine's clock, or when the first machine is ready for it.
// Periods are counted from Go's zero time: days begin at midnight, UTC.
//
// The machines wait for the lock at path, each with a session of its own, and
// with another one when that ends. The holder reads in the file at path which
// period was done last. The job gets the beginning of its period, and a context
// that ends with the hold; send held's token to the resources that it changes.
// The job counts as done once it has returned nil. If it fails, or its machine
// dies, the next machine in the queue runs it. So it may be started more than
// once, but never twice at a time if it obeys its context. A machine with a
// slow clock does not repeat it.
func EachPeriod(ctx context.Context, c *client.Client, path string, period time.Duration, job func(ctx context.Context, begins time.Time, held *client.Held) error, opts ...client.SessionOption) error {
	if period <= 0 {
		return errors.New("recipe: the period is not above zero")
	}
	p := periodic{job: job}
	return inSessions(ctx, c, opts, func(s *client.Session) (bool, error) {
		next := time.Now().Add(again).Round(0) // unless the job is done: the next machine may succeed, or this one later
		repeat, err := doLocked(ctx, s, path, func(under context.Context, held *client.Held) (bool, error) {
			begins := time.Now().UTC().Truncate(period) // now: the wait may have lasted several periods
			err := p.do(ctx, under, s, held, begins)
			if err == nil {
				next = begins.Add(period)
			}
			return true, err
		})
		if repeat {
			open, end := whileOpen(ctx, s)
			defer end()
			pauseUntil(open, next)
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return repeat, err
	})
}

// periodic is one call of EachPeriod.
type periodic struct {
	job  func(context.Context, time.Time, *client.Held) error
	done time.Time // the last period that this machine has done
}

// do runs the job of a period under the lock, unless it is done. It does not
// repeat a job that this machine has done but could not record.
func (p *periodic) do(ctx, under context.Context, s *client.Session, held *client.Held, begins time.Time) error {
	file, _, err := find(under, s.Client(), held.Path())
	if err != nil {
		return err
	}
	if file != nil {
		// A file that does not parse as a time was not written by EachPeriod: the
		// job runs again, rather than never.
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
	_, err = s.Put(ctx, held.Path(), []byte(begins.Format(time.RFC3339Nano)), client.While(held))
	return err
}
