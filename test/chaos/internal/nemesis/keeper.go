package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/test/cell"
)

// Keeper stops and starts the cell's processes, and knows which of them should
// run. Overlapping faults may concern the same process; then each call does the
// remaining part. Its methods are safe for concurrent use.
type Keeper struct {
	cell *cell.Cell

	mu     sync.Mutex
	down   map[string]bool
	killed map[string]int  // number of kills
	doomed map[string]int  // faults under way that make the process end
	slow   map[string]int  // faults under way that can prevent a stop in time
	ill    map[string]bool // the disk once had a fault
}

func newKeeper(c *cell.Cell) *Keeper {
	return &Keeper{cell: c, down: map[string]bool{}, killed: map[string]int{}, doomed: map[string]int{}, slow: map[string]int{}, ill: map[string]bool{}}
}

// Excuses reports whether a fault of the replica's disk explains a line of its
// log.
func (k *Keeper) Excuses(id, line string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ill[id] && (strings.Contains(line, "no space left on device") || strings.Contains(line, "has not ended within"))
}

// Ended returns the replicas that ended unexpectedly, and how they ended.
func (k *Keeper) Ended() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ended []string
	for _, r := range k.cell.Replicas() {
		if !r.Running() && !k.down[r.ID] && k.doomed[r.ID] == 0 {
			_, state := r.ExitState()
			ended = append(ended, fmt.Sprintf("replica %s ended unexpectedly (%s); its last lines are:\n%s", r.ID, state, r.LogTail(3)))
		}
	}
	return ended
}

// kill ends a replica like kill -9.
func (k *Keeper) kill(r *cell.Replica) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !r.Running() {
		return nil // ended by another fault, or unexpectedly, which Ended reports
	}
	k.down[r.ID] = true
	k.killed[r.ID]++
	return r.Kill()
}

// wipe ends a replica like kill -9 and removes its directory.
func (k *Keeper) wipe(r *cell.Replica) error {
	return k.swap(r, func() error { return os.RemoveAll(r.DataDir) })
}

// swap ends a replica like kill -9 and changes its disk.
func (k *Keeper) swap(r *cell.Replica, disk func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !r.Running() && !k.down[r.ID] && k.doomed[r.ID] == 0 {
		return nil // it ended unexpectedly, which Ended reports
	}
	k.down[r.ID] = true
	k.killed[r.ID]++
	return errors.Join(r.Kill(), disk())
}

// start starts a replica that was killed or terminated. One that ended
// unexpectedly stays down for inspection. One that is being terminated is
// started by the fault that terminated it.
func (k *Keeper) start(r *cell.Replica) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.down[r.ID] || r.Running() {
		return nil
	}
	delete(k.down, r.ID)
	return r.Start()
}

// doom records that a replica's process will end by itself.
func (k *Keeper) doom(r *cell.Replica) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doomed[r.ID]++
}

// revive ends doom, and starts the replica if its process has ended as
// expected. A running process may still end within the given time.
func (k *Keeper) revive(r *cell.Replica, within time.Duration, expected func(code int, words string) bool) error {
	select {
	case <-r.Exited():
	case <-time.After(within):
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doomed[r.ID]--
	if r.Running() || k.down[r.ID] {
		return nil // it did not end, or another fault will start it
	}
	if code, words := r.ExitState(); !expected(code, words) {
		return fmt.Errorf("the process ended with %s", words)
	}
	k.killed[r.ID]++
	return r.Start()
}

// ail records that a replica's disk has a fault, until the returned function is
// called. Its process may be unable to stop cleanly during that time.
func (k *Keeper) ail(r *cell.Replica) (cure func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slow[r.ID]++
	k.ill[r.ID] = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.slow[r.ID]--
	}
}

// stopTime bounds a clean stop: stoutd's own limit is ten seconds.
const stopTime = 30 * time.Second

// terminate stops a replica cleanly.
func (k *Keeper) terminate(r *cell.Replica) error {
	k.mu.Lock()
	if !r.Running() || k.down[r.ID] {
		k.mu.Unlock()
		return nil
	}
	k.down[r.ID] = true
	killed, excused := k.killed[r.ID], k.doomed[r.ID]+k.slow[r.ID] > 0
	k.mu.Unlock() // stopping takes a while, and the process may be killed during it
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	err := r.Terminate(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if excused || k.doomed[r.ID]+k.slow[r.ID] > 0 {
		return nil // the disk's fault may prevent a clean stop
	}
	if k.killed[r.ID] != killed {
		return nil // ended by another fault in the middle, which may have restarted it
	}
	if _, how := r.ExitState(); how == "signal: terminated" {
		return nil // it had just started and did not handle signals yet
	}
	return err
}

// suspend stops a replica (SIGSTOP); resume continues it.
func (k *Keeper) suspend(r *cell.Replica) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !r.Running() || k.down[r.ID] {
		return nil
	}
	return r.Pause()
}

// proceed continues a replica that has stopped itself.
func (k *Keeper) proceed(r *cell.Replica) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !r.Running() || r.Paused() {
		return nil
	}
	return continueRunning(r)
}

func (k *Keeper) resume(r *cell.Replica) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !r.Paused() {
		return nil
	}
	return continueRunning(r)
}

// continueRunning continues a replica, unless another fault has just ended it.
func continueRunning(r *cell.Replica) error {
	if err := r.Continue(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
