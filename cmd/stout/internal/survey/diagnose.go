package survey

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Explain examines the cell after a call without outcome, and returns the
// reason before ctx ends: no replica answers, there is no master, or the master
// did not answer.
//
// A replica may take too long to report that its master hangs. So each replica
// is also asked about itself.
func (c Collector) Explain(ctx context.Context, within time.Duration) *exit.Failure {
	dead := make([]error, len(c.Servers))
	var asked sync.WaitGroup
	asked.Go(func() {
		ask.Each(c.Servers, func(i int, url string) { _, dead[i] = c.Admin.Replica(ctx, url) })
	})
	cell, err := c.Collect(ctx, LastWords)
	if f, ok := errors.AsType[*exit.Failure](err); ok {
		asked.Wait()
		return cmp.Or(c.masterSilent(cell.failed, dead, within), f)
	}
	if ask.IsDenial(err) {
		return exit.Errorf(exit.NoMaster, "no master has answered within %s", format.Human(within)).
			Hint("stout status shows which replicas are healthy; it needs the right to observe the cell")
	}
	if !ask.InOffice(cell.Cell) {
		c.examine(ctx, &cell) // a replica outside the cell does not count as up
		return NoMaster(cell.Cell)
	}
	return exit.Errorf(exit.Unreachable, "the cell did not answer within %s", format.Human(within)).
		Detail("%s is master, at %s", format.Clean(cell.Master.ID), format.Clean(cell.Master.URL)).
		Hint("try a longer --timeout; stout status shows which replicas are healthy")
}

// masterSilent reports that replicas answer but their master does not, or nil
// if no replica answers. failed and dead have the errors of asking each server
// for the cell and for itself.
func (c Collector) masterSilent(failed map[string]error, dead []error, within time.Duration) *exit.Failure {
	out := exit.Errorf(exit.NoMaster, "no master has answered within %s", format.Human(within))
	for i, url := range c.Servers {
		if dead[i] == nil && !ask.IsRefusal(failed[url]) {
			out.Detail("%s: answers, but its master does not", url)
		}
	}
	if len(out.Details) == 0 {
		return nil
	}
	return out.Hint("stout status shows which replicas are healthy")
}

// Look asks all replicas for the cell, and what is wrong with each. f reports
// several cells, or a missing master; err, that no replica answers.
func (c Collector) Look(ctx context.Context, within time.Duration) (seen View, found []Finding, f *exit.Failure, err error) {
	cells := c.askCells(ctx)
	if seen, err = c.Collect(ctx, within); err != nil {
		return seen, nil, nil, err
	}
	found = c.examine(ctx, &seen)
	f = <-cells
	switch held := ask.InOffice(seen.Cell); {
	case f == nil && !held:
		f = NoMaster(seen.Cell)
	case !held:
		f.Code = exit.NoMaster
	}
	return seen, found, f, nil
}

// NoMaster returns the error of a cell without a master that visibly holds its
// lease.
func NoMaster(cell lockapi.Cell) *exit.Failure {
	if cell.Master != nil {
		return exit.Errorf(exit.NoMaster, "%s is named as master but does not visibly hold its lease", format.Clean(cell.Master.ID)).
			Hint("it may have just been elected, or is not reachable from here at %s", format.Clean(cell.Master.URL))
	}
	up, voters, promised := 0, 0, int64(0)
	for _, r := range cell.Replicas {
		if r.Role == lockapi.RoleNonvoter {
			continue
		}
		if voters++; !r.Healthy || r.Role == lockapi.RoleNone { // a replica without role waits to be a member
			continue
		}
		if up++; r.Promise != nil {
			promised = max(promised, r.Promise.RemainingMS)
		}
	}
	none := exit.Errorf(exit.NoMaster, "the cell has no master: locks and members cannot be changed now")
	if up > voters/2 && promised > 0 {
		return none.Hint("%d of %s answer; a new master waits until earlier leases are over, at most %s", up, format.Plural(voters, "replica"), format.MS(promised))
	}
	return none.Hint("%d of %s answer; a master needs %d that reach each other", up, format.Plural(voters, "replica"), voters/2+1)
}
