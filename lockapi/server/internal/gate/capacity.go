package gate

import (
	"context"
	"sync"
)

// Capacity is a counter with a bound. It is safe for concurrent use.
type Capacity struct {
	Most int // does not change

	mu    sync.Mutex
	used  int
	empty chan struct{} // closed when the count reaches zero; nil unless Emptied waits
}

// Enter adds n if there is room for it.
func (r *Capacity) Enter(n int) bool { return r.EnterBelow(n, 0) }

// Add adds n regardless of the bound: another call is about to leave.
func (r *Capacity) Add(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used += n
	return true
}

// EnterBelow is Enter with some of the room kept free.
func (r *Capacity) EnterBelow(n, free int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.Most-free-r.used {
		return false
	}
	r.used += n
	return true
}

// Leave subtracts n.
func (r *Capacity) Leave(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used -= n; r.used == 0 && r.empty != nil {
		close(r.empty)
		r.empty = nil
	}
}

// Count returns the present count.
func (r *Capacity) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// Emptied waits until the count is zero.
func (r *Capacity) Emptied(ctx context.Context) error {
	r.mu.Lock()
	if r.used == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.empty == nil {
		r.empty = make(chan struct{})
	}
	empty := r.empty
	r.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
