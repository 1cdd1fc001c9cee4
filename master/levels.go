package master

import (
	"context"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// raiseLevel raises the cell's level to the highest that all members know,
// nonvoters included. A member that does not answer has reported no level:
// raising waits for it, or for its replacement. See state.Level.
func (m *Master) raiseLevel(ctx context.Context, o *office) error {
	if m.log.State().Level >= m.opts.Level {
		return nil
	}
	seen, err := m.poll(ctx)
	if err != nil {
		return err
	}
	to := seen.level(m.opts.Level)
	if to <= m.log.State().Level {
		return nil
	}
	if _, err := o.propose(&Caller{}, &state.RaiseLevel{Level: to}); err != nil {
		return err
	}
	o.logger.Info().Uint64("cell_level", to).Msg("the cell's level was raised: replicas of earlier releases can no longer join")
	return nil
}

// readyFor raises the cell's level if an operation needs a higher one, so that
// the first caller need not retry.
func (o *office) readyFor(op state.Operation) error {
	if o.log.State().Knows(op) || o.raise == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*askTimeout)
	defer cancel()
	return o.raise(ctx)
}

// level returns the highest level that all members know, up to most.
func (r pollResult) level(most uint64) uint64 {
	for _, v := range r.members {
		most = min(most, v.card.Level)
	}
	return most
}

// errLevel refuses an operation that some replica may not understand.
func errLevel(op state.Operation, level uint64) *lockapi.Error {
	return lockapi.Errorf(lockapi.CodeConflict,
		"this call needs a higher level than the cell has (%d; %s): first upgrade all replicas to a release that has it; see GET %s",
		level, state.Name(op), lockapi.RouteMembers)
}
