package master

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/replica/state"

	"github.com/stoutlock/stout/lockapi"
)

// When sessions with many claims end at the same time, expired or closed, they
// end in groups. A session with more claims than a group may have ends alone.
func TestHeavySessionsEndAPartAtATime(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		sizes := []int{mostEnding * 3 / 8, mostEnding * 3 / 8, mostEnding * 3 / 8, mostEnding * 5 / 4, 1, 1}
		heavy := map[string]int{}
		var all sync.WaitGroup
		for i, size := range sizes {
			id := newSession(t, m, time.Minute)
			heavy[id] = size
			for k := range size {
				all.Go(func() { mustHold(t, m, fmt.Sprintf("/%d/%d", i, k), want(id)) })
			}
		}
		all.Wait()
		closed := false
		for id := range heavy {
			if closed = !closed; closed {
				all.Go(func() {
					if err := m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: id}); err != nil {
						t.Error(err)
					}
				})
				continue
			}
			o := openOffice(t, n)
			all.Go(func() {
				if _, err := o.proposeEnd(&Caller{}, &state.ExpireSession{Session: id}, id); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s := n.State(); s.SessionCount() != 0 || s.LockCount() != 0 {
			t.Fatalf("%d sessions and %d locks are left", s.SessionCount(), s.LockCount())
		}
		for _, b := range n.sent() {
			claims, ends := 0, 0
			for _, c := range b.Commands {
				switch op := c.Operation.(type) {
				case *state.ExpireSession:
					claims, ends = claims+1+heavy[op.Session], ends+1
				case *state.CloseSession:
					claims, ends = claims+1+heavy[op.Session], ends+1
				}
			}
			if claims > mostEnding && ends > 1 {
				t.Errorf("one entry ends %d sessions with %d claims", ends, claims)
			}
		}
		o := openOffice(t, n)
		e := &o.endings
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.claims != 0 || len(e.queue) != 0 {
			t.Errorf("%d claims are ending, and %d wait", e.claims, len(e.queue))
		}
	})
}
