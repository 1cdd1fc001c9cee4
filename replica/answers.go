package replica

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/wait"
)

// lookAtProgress is how often Answers checks whether a snapshot makes progress.
const lookAtProgress = time.Second

// Answers returns nil when the library's main loop has answered a question.
// That loop writes the log, votes and follows. If it hangs, as on a disk that
// hangs, Answers waits until ctx ends. Receiving and restoring a snapshot also
// keeps the loop busy; that does not count as hanging while bytes of the
// snapshot arrive.
func (r *Replica) Answers(ctx context.Context) error {
	before := r.progress.Load()
	answered := wait.Err(func() error { return r.raft.VerifyLeader().Error() })
	tick := time.NewTicker(lookAtProgress)
	defer tick.Stop()
	for {
		select {
		case err := <-answered:
			if errors.Is(err, raft.ErrRaftShutdown) {
				return err
			}
			return nil // "not the leader" is an answer, too
		case <-tick.C:
			if r.progress.Load() != before {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
