package replica

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/wait"
)

// lookAtProgress is how often Answers looks whether a snapshot gets on.
const lookAtProgress = time.Second

// Answers returns nil when the library's main loop has taken a question and
// answered it: the loop that writes the log, votes and follows. Where it hangs,
// as on a disk that does, Answers waits until ctx ends. A snapshot, which keeps
// the loop for as long as it is received and restored, is none of that while
// bytes of it arrive.
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
