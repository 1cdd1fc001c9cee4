package master

import (
	"context"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/deadlock"
	"github.com/stoutlock/stout/replica/state"
)

// mostCircles is how many circles are looked for, of which the caller may see some.
const mostCircles = 10 * lockapi.MaxDeadlocks

// Deadlocks finds sessions that wait for each other in circles.
func (m *Master) Deadlocks(ctx context.Context, q Read) (lockapi.Deadlocks, error) {
	return read(ctx, m, &q, func(_ *office, s *state.State) (lockapi.Deadlocks, error) {
		out := lockapi.Deadlocks{Deadlocks: []lockapi.Deadlock{}}
		for _, c := range deadlock.Find(s, mostCircles) {
			if len(out.Deadlocks) < lockapi.MaxDeadlocks && !slices.ContainsFunc(c, func(l deadlock.Link) bool { return !q.Caller.sees(s, l.Wait.Path) }) {
				out.Deadlocks = append(out.Deadlocks, deadlockOf(s, c, time.Now()))
			}
		}
		return out, nil
	})
}

// deadlockOf shows a circle. now is a wall clock, as for queueOf.
func deadlockOf(s *state.State, c deadlock.Circle, now time.Time) lockapi.Deadlock {
	present := max(now.UnixNano(), s.Now)
	var out lockapi.Deadlock
	for _, l := range c {
		w := l.Wait
		link := lockapi.DeadlockLink{Session: w.Session, Path: w.Path, Handle: w.Handle, Mode: mode(w.Mode),
			Since: time.Unix(0, w.Since).UTC(), WaitingMS: time.Duration(present - w.Since).Milliseconds()}
		if v, ok := s.Session(w.Session); ok {
			link.SessionName, link.Principal = v.Name, v.Principal
		}
		if l.Hold != nil {
			link.Token = l.Hold.Token
		}
		out.Links = append(out.Links, link)
	}
	return out
}
