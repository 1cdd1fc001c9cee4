package guard

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Hold is a time for which a client was sure to hold a lock. From and Until are
// on one clock; the client looked at its hold at both instants, or after them,
// and found it good.
type Hold struct {
	Path, Owner string
	Mode        lockapi.Mode
	Limit       int64 // of a semaphore
	Token       uint64
	From, Until time.Duration
}

func (h *Hold) String() string {
	return fmt.Sprintf("%s (%s, token %d, %.6f–%.6f s)", h.Owner, h.Mode, h.Token, h.From.Seconds(), h.Until.Seconds())
}

// Holds gathers them. It is safe for concurrent use.
type Holds struct {
	mu    sync.Mutex
	paths map[string][]Hold
}

// Add notes a hold that has ended.
func (l *Holds) Add(h Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paths == nil {
		l.paths = map[string][]Hold{}
	}
	l.paths[h.Path] = append(l.paths[h.Path], h)
}

// Len is how many were noted.
func (l *Holds) Len() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, holds := range l.paths {
		n += len(holds)
	}
	return n
}

// Problems finds holds that were good at the same instant and must not have
// been.
func (l *Holds) Problems() (problems []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for path, holds := range l.paths {
		slices.SortFunc(holds, func(a, b Hold) int { return cmp.Compare(a.From, b.From) })
		var at []Hold // good at the From of the one looked at
		for _, h := range holds {
			at = slices.DeleteFunc(at, func(o Hold) bool { return o.Until <= h.From })
			for _, o := range at {
				if h.Mode == lockapi.Exclusive || o.Mode == lockapi.Exclusive {
					problems = append(problems, fmt.Sprintf("two holds of %s at once: %v and %v", path, &o, &h))
				}
			}
			if at = append(at, h); h.Limit > 0 && int64(len(at)) > h.Limit {
				problems = append(problems, fmt.Sprintf("more than %d holds of %s at once: %v", h.Limit, path, at))
			}
		}
	}
	return problems
}
