package batch

import (
	"sync"
	"time"
)

// Timeline records what the log did for a traced call. It is safe for
// concurrent use, and the zero value is empty.
type Timeline struct {
	mu     sync.Mutex
	writes []Write
}

// Write is one command that a call had in the log, by the wall clock.
type Write struct {
	Asked time.Time // when it began to gather with others for an entry
	Sent  time.Time // when its entry went to the log
	Done  time.Time // when the entry was applied here, after a majority had it on its disks
	Index uint64    // of the entry
	With  int       // how many commands the entry has
}

// Writes returns the finished commands, in the order in which they finished.
func (t *Timeline) Writes() []Write {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes
}

func (t *Timeline) add(w Write) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes = append(t.writes, w)
}
