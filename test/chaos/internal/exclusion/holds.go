package exclusion

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Hold is a time during which a client was sure to hold a lock. From and Until
// are on one clock; the client checked its hold at or after each of the two
// instants, and found it valid.
type Hold struct {
	Path, Owner string
	Mode        lockapi.Mode
	Limit       int64 // limit of a semaphore
	Token       uint64
	From, Until time.Duration
}

func (h *Hold) String() string {
	return fmt.Sprintf("%s (%s, token %d, %.6f–%.6f s)", h.Owner, h.Mode, h.Token, h.From.Seconds(), h.Until.Seconds())
}

// Holds collects holds. It is safe for concurrent use.
type Holds struct {
	mu    sync.Mutex
	paths map[string][]Hold
}

// Add records a hold that has ended.
func (l *Holds) Add(h Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paths == nil {
		l.paths = map[string][]Hold{}
	}
	l.paths[h.Path] = append(l.paths[h.Path], h)
}

// Len returns the number of holds.
func (l *Holds) Len() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, holds := range l.paths {
		n += len(holds)
	}
	return n
}

// Problems returns the holds that were valid at the same instant although they
// exclude each other.
func (l *Holds) Problems() (problems []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for path, holds := range l.paths {
		slices.SortFunc(holds, func(a, b Hold) int { return cmp.Compare(a.From, b.From) })
		var at []Hold // valid at h.From
		for _, h := range holds {
			at = slices.DeleteFunc(at, func(o Hold) bool { return o.Until <= h.From })
			for _, o := range at {
				if h.Mode == lockapi.Exclusive || o.Mode == lockapi.Exclusive {
					problems = append(problems, fmt.Sprintf("two holds of %s at the same time: %v and %v", path, &o, &h))
				}
			}
			if at = append(at, h); h.Limit > 0 && int64(len(at)) > h.Limit {
				problems = append(problems, fmt.Sprintf("more than %d holds of %s at the same time: %v", h.Limit, path, at))
			}
		}
	}
	return problems
}
