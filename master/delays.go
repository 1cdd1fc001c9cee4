package master

import (
	"time"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/state"
)

// delays are the lock-delays in force, by path. The office's mutex guards them
// and their deadlines.
type delays struct {
	drift     lease.Drift
	deadlines *deadlines
	inForce   map[string]delay
}

type delay struct {
	id    uint64
	until time.Duration
}

// start records a lock-delay. If one is in force already, the later end counts.
func (d *delays) start(path string, id uint64, ms int64, now time.Duration) {
	until := now + d.drift.Long(time.Duration(ms)*time.Millisecond)
	before := d.inForce[path]
	next := delay{id: id, until: max(until, before.until)}
	d.inForce[path] = next
	d.deadlines.add(&deadline{at: next.until, of: delayEnd{path, id}})
}

// ended forgets a lock-delay that is over, unless another has followed it.
func (d *delays) ended(path string, id uint64) {
	if d.inForce[path].id == id {
		delete(d.inForce, path)
	}
}

// delayEnd is the deadline of a lock-delay.
type delayEnd struct {
	path string
	id   uint64
}

// due proposes the end of a lock-delay, unless another has followed it.
func (e delayEnd) due(o *office, now time.Duration) {
	if d := o.delays.inForce[e.path]; d.id == e.id && d.until <= now {
		go o.propose(&Caller{}, &state.EndDelay{Path: e.path, ID: e.id})
	}
}

// delayRemaining returns the rest of the lock-delay at path, 0 without one.
func (o *office) delayRemaining(path string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok := o.delays.inForce[path]
	if !ok {
		return 0
	}
	return max(0, d.until-o.now())
}
