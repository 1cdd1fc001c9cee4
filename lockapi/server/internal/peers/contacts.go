package peers

import (
	"slices"
	"sync"
	"time"
)

// contacts records when each replica last answered, and its applied index.
type contacts struct {
	started time.Time // used for a replica that has never answered
	mu      sync.Mutex
	last    map[string]contact
}

type contact struct {
	at      time.Time // last answer
	applied uint64
	missed  time.Time // first failed question since then; zero for none
}

func (c *contacts) note(id string, applied uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]contact{}
	}
	c.last[id] = contact{at: time.Now(), applied: applied}
}

// miss records that a replica did not answer.
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

// isUnreached reports whether a replica has not answered for UnreachedAfter.
func (c *contacts) isUnreached(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	missed := c.last[id].missed
	return !missed.IsZero() && time.Since(missed) >= UnreachedAfter
}

// unreached lists the replicas that have not answered for UnreachedAfter.
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
	if got, ok := c.lastAnswer(id); ok {
		return got
	}
	return contact{at: c.started}
}

// lastAnswer returns the last answer of a replica, if it has ever answered.
func (c *contacts) lastAnswer(id string) (got contact, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got = c.last[id]
	return got, !got.at.IsZero()
}
