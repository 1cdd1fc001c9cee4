package master

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/deadlock"
	"github.com/stoutlock/stout/replica/state"
)

// mostCycles is how many cycles are searched for; the caller may see some
// of them.
const mostCycles = 10 * lockapi.MaxDeadlocks

// FindDeadlocks finds cycles of sessions that wait for each other.
func (m *Master) FindDeadlocks(ctx context.Context, q *Read, _ *lockapi.FindDeadlocks) (lockapi.Deadlocks, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (lockapi.Deadlocks, error) {
		out := lockapi.Deadlocks{Deadlocks: []lockapi.Deadlock{}}
		_ = ctx.Done() // from now on a disconnect of the caller is noticed
		found, err := deadlock.Find(ctx, s, mostCycles)
		if err != nil {
			return out, errNoMaster("the caller has gone")
		}
		size := 0
		for _, c := range found {
			if len(out.Deadlocks) == lockapi.MaxDeadlocks || size >= lockapi.PageBytes {
				break
			}
			if slices.ContainsFunc(c, func(l deadlock.Link) bool { return !q.Caller.who().MayRead(s, l.Wait.Path) }) {
				continue
			}
			one := deadlockOf(s, c, time.Now())
			size += deadlockSize(&one)
			out.Deadlocks = append(out.Deadlocks, one)
		}
		return out, nil
	})
}

// cycleCount is the number of cycles in a state, for metrics. Scrapes share
// one search, and searches take at most one part in restOfCount of the time. In
// a large cell the count is correspondingly old.
type cycleCount struct {
	mu    sync.Mutex
	of    uint64 // index of the state
	n     int
	again time.Duration // by the clock: not before
}

const restOfCount = 50

// cycles returns the number of cycles, which may be of an earlier state.
func (m *Master) cycles() int {
	c := &m.counted
	c.mu.Lock()
	defer c.mu.Unlock()
	s, began := m.log.State(), m.opts.Clock()
	if c.of == s.Index || began < c.again {
		return c.n
	}
	found, _ := deadlock.Find(context.Background(), s, lockapi.MaxDeadlocks)
	now := m.opts.Clock()
	c.of, c.n, c.again = s.Index, len(found), now+(now-began)*restOfCount
	return c.n
}

// deadlockOf converts a cycle. now is a wall clock, as for queueOf.
func deadlockOf(s *state.State, c deadlock.Cycle, now time.Time) lockapi.Deadlock {
	present := max(now.UnixNano(), s.Now)
	var out lockapi.Deadlock
	for i, l := range c {
		if i == lockapi.MaxDeadlockLinks {
			out.MoreLinks = len(c) - i
			break
		}
		w := l.Wait
		link := lockapi.DeadlockLink{Session: w.Session, Path: w.Path, Handle: w.Handle, Mode: mode(w.Mode),
			Since: time.Unix(0, w.Since).UTC(), WaitingMS: time.Duration(present - w.Since).Milliseconds(), Token: l.Hold.Token}
		if v, ok := s.Session(w.Session); ok {
			link.SessionName, link.Principal = v.Name, v.Principal
		}
		out.Links = append(out.Links, link)
	}
	return out
}
