package master

import (
	"context"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// raiseLevel raises the cell's level to the highest that all members know,
// those without a vote included. One that does not answer has told nothing: the
// level waits for it, or for its replacement. See state.Level.
func (m *Master) raiseLevel(ctx context.Context, o *office) error {
	if m.log.State().Level >= m.opts.Level {
		return nil
	}
	seen, err := m.look(ctx)
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
	o.logger.Info().Uint64("cell_level", to).Msg("the cell's level was raised: replicas of earlier releases can't join any more")
	return nil
}

// readyFor raises the cell's level for an operation that it has not reached: who
// asks for it first need not come again.
func (o *office) readyFor(op state.Operation) error {
	if o.log.State().Knows(op) || o.raise == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*askTimeout)
	defer cancel()
	return o.raise(ctx)
}

// level is the highest that all members know, up to most.
func (r roll) level(most uint64) uint64 {
	for _, v := range r.members {
		most = min(most, v.card.Level)
	}
	return most
}

// errLevel refuses an operation that not every replica would understand.
func errLevel(op state.Operation, level uint64) *lockapi.Error {
	return lockapi.Errorf(lockapi.CodeConflict,
		"this call needs a later level than the cell has (%d; %s): it comes with the release that all replicas have to run first; see GET %s",
		level, state.Name(op), lockapi.RouteMembers)
}
