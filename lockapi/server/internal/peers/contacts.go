package peers

import (
	"slices"
	"sync"
	"time"
)

// contacts remembers when other replicas last answered, and with what.
type contacts struct {
	started time.Time // stands in for a replica that never answered
	mu      sync.Mutex
	last    map[string]contact
}

type contact struct {
	at      time.Time // of the last answer
	applied uint64
	missed  time.Time // of the first question after it without one; zero for none
}

func (c *contacts) note(id string, applied uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]contact{}
	}
	c.last[id] = contact{at: time.Now(), applied: applied}
}

// miss notes that a replica has not answered.
func (c *contacts) miss(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]contact{}
	}
	if got := c.last[id]; got.missed.IsZero() {
		got.missed = time.Now()
		c.last[id] = got
	}
}

// isUnreached reports whether the way to a replica is dead.
func (c *contacts) isUnreached(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	missed := c.last[id].missed
	return !missed.IsZero() && time.Since(missed) >= UnreachedAfter
}

// unreached lists those that the way is dead to.
func (c *contacts) unreached() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, got := range c.last {
		if !got.missed.IsZero() && time.Since(got.missed) >= UnreachedAfter {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (c *contacts) of(id string) contact {
	if got, ok := c.heard(id); ok {
		return got
	}
	return contact{at: c.started}
}

// heard is the last answer of a replica, if it has ever answered.
func (c *contacts) heard(id string) (got contact, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got = c.last[id]
	return got, !got.at.IsZero()
}
