package replica

import (
	"fmt"
	"time"
)

// Silence cuts this replica off from the others for a while, as a partition of the
// network would: no message of Raft's leaves it, and none that arrives is heeded. Only
// a snapshot that is under way goes on to its end, and is answered; it decides nothing.
// A leader steps down then, and follows whom the others have elected when it is over.
func (r *Replica) Silence(d time.Duration) { r.silentUntil.Store(int64(r.opts.Clock() + d)) }

// silenced is an error while this replica is to be silent.
func (r *Replica) silenced() error {
	until := time.Duration(r.silentUntil.Load())
	if until == 0 { // as ever: the clock is not read for each message
		return nil
	}
	if left := until - r.opts.Clock(); left > 0 {
		return fmt.Errorf("replica %s is silent for another %v, as it was told to", r.opts.ID, left)
	}
	return nil
}
