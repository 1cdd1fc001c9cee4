package replica

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/async"
)

// Answers returns nil when the library's main loop has taken a question and
// answered it: the loop that writes the log, votes and follows. Where it hangs,
// as on a disk that does, Answers waits until ctx ends.
func (r *Replica) Answers(ctx context.Context) error {
	select {
	case err := <-async.Err(func() error { return r.raft.VerifyLeader().Error() }):
		if errors.Is(err, raft.ErrRaftShutdown) {
			return err
		}
		return nil // "not the leader" is an answer, too
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
