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

// Keeper stops and starts the cell's processes, and knows which of them ought
// to run. Faults that overlap may be about the same process: then each call
// does what there is left to do. Its methods are safe for concurrent use.
type Keeper struct {
	cell *cell.Cell

	mu     sync.Mutex
	down   map[string]bool
	killed map[string]int  // how often
	doomed map[string]int  // faults under way with which the process is to end
	slow   map[string]int  // faults under way with which the process cannot stop in time
	ill    map[string]bool // the disk once had a fault
}

func newKeeper(c *cell.Cell) *Keeper {
	return &Keeper{cell: c, down: map[string]bool{}, killed: map[string]int{}, doomed: map[string]int{}, slow: map[string]int{}, ill: map[string]bool{}}
}

// Excuses reports whether a line of a replica's log is what a fault of its disk
// makes it write.
func (k *Keeper) Excuses(id, line string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ill[id] && (strings.Contains(line, "no space left on device") || strings.Contains(line, "has not ended within"))
}

// Ended are the replicas that ended by themselves, and how. Those that are to end
// are not among them.
func (k *Keeper) Ended() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ended []string
	for _, r := range k.cell.Replicas() {
		if !r.Running() && !k.down[r.ID] && k.doomed[r.ID] == 0 {
			_, state := r.ExitState()
			ended = append(ended, fmt.Sprintf("replica %s ended by itself (%s); its log ends with:\n%s", r.ID, state, r.LogTail(3)))
		}
	}
	return ended
}

// kill ends a replica as kill -9 does.
func (k *Keeper) kill(r *cell.Replica) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !r.Running() {
		return nil // by another fault, or by itself, which Ended tells
	}
	k.down[r.ID] = true
	k.killed[r.ID]++
	return r.Kill()
}

// wipe ends a replica as kill -9 does, and loses its directory.
func (k *Keeper) wipe(r *cell.Replica) error {
	return k.swap(r, func() error { return os.RemoveAll(r.DataDir) })
}

// swap ends a replica as kill -9 does, and does something to its disk.
func (k *Keeper) swap(r *cell.Replica, disk func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !r.Running() && !k.down[r.ID] && k.doomed[r.ID] == 0 {
		return nil // it ended by itself, which Ended tells
	}
	k.down[r.ID] = true
	k.killed[r.ID]++
	return errors.Join(r.Kill(), disk())
}

// start starts a replica that was killed or terminated. One that ended by
// itself stays down, for all to see; one that is on its way down is started by
// whoever has terminated it.
func (k *Keeper) start(r *cell.Replica) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.down[r.ID] || r.Running() {
		return nil
	}
	delete(k.down, r.ID)
	return r.Start()
}

// doom notes that a replica's process is to end by itself.
func (k *Keeper) doom(r *cell.Replica) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doomed[r.ID]++
}

// revive ends doom, and starts the replica where its process has ended as expected.
// A process that runs may end within a while yet.
func (k *Keeper) revive(r *cell.Replica, within time.Duration, expected func(code int, words string) bool) error {
	select {
	case <-r.Exited():
	case <-time.After(within):
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doomed[r.ID]--
	if r.Running() || k.down[r.ID] {
		return nil // it was not reached, or another fault starts it
	}
	if code, words := r.ExitState(); !expected(code, words) {
		return fmt.Errorf("the process ended with %s", words)
	}
	k.killed[r.ID]++
	return r.Start()
}

// ail notes that a replica's disk has a fault until the function that it returns is
// called. Its process may be unable to stop in good order then.
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

// stopTime bounds an orderly stop: stoutd gives itself ten seconds.
const stopTime = 30 * time.Second

// terminate ends a replica in good order.
func (k *Keeper) terminate(r *cell.Replica) error {
	k.mu.Lock()
	if !r.Running() || k.down[r.ID] {
		k.mu.Unlock()
		return nil
	}
	k.down[r.ID] = true
	killed, excused := k.killed[r.ID], k.doomed[r.ID]+k.slow[r.ID] > 0
	k.mu.Unlock() // it may take a while, and the process may be killed meanwhile
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	err := r.Terminate(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if excused || k.doomed[r.ID]+k.slow[r.ID] > 0 {
		return nil // it ended as it could
	}
	if k.killed[r.ID] != killed {
		return nil // by another fault in the middle, which may have started it again
	}
	if _, how := r.ExitState(); how == "signal: terminated" {
		return nil // it was started a moment ago, and had not come to heed signals
	}
	return err
}

// suspend stops a replica (SIGSTOP), resume lets it go on.
func (k *Keeper) suspend(r *cell.Replica) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !r.Running() || k.down[r.ID] {
		return nil
	}
	return r.Pause()
}

// proceed lets a replica go on that has stopped itself.
func (k *Keeper) proceed(r *cell.Replica) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !r.Running() || r.Paused() {
		return nil
	}
	return r.Continue()
}

func (k *Keeper) resume(r *cell.Replica) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !r.Paused() {
		return nil
	}
	return r.Continue()
}
