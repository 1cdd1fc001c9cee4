package gate

import "sync"

// Counts counts the calls of each caller, with a bound.
type Counts[K comparable] struct {
	mu sync.Mutex
	of map[K]int64
}

// Enter counts a call if its caller has fewer than most, and returns the count.
func (c *Counts[K]) Enter(who K, most int64) (count int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[who]; n >= most {
		return n, false
	}
	if c.of == nil {
		c.of = map[K]int64{}
	}
	c.of[who]++
	return c.of[who], true
}

// Leave records the end of a call.
func (c *Counts[K]) Leave(who K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[who]--; c.of[who] == 0 {
		delete(c.of, who)
	}
}
