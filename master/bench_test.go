package master

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// instantLog is a log in memory that accepts each entry at once, of a replica
// that leads forever.
type instantLog struct {
	current atomic.Pointer[state.State]
	mu      sync.Mutex // over Submit
}

func (l *instantLog) Leading() (uint64, bool)       { return 1, true }
func (l *instantLog) Changed() <-chan struct{}      { return nil }
func (l *instantLog) Barrier(context.Context) error { return nil }
func (l *instantLog) State() *state.State           { return l.current.Load() }
func (l *instantLog) Events() *events.Ring          { return nil }

func (l *instantLog) AsOf() (time.Duration, bool)            { return 0, true }
func (l *instantLog) PromisedBefore(uint64) time.Duration    { return 0 }
func (l *instantLog) Due() (state.Command, bool)             { return state.Command{}, false }
func (l *instantLog) Transfer(context.Context, string) error { return nil }

func (l *instantLog) Submit(b state.Batch) func() (*state.Outcome, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.State()
	next, out := s.Apply(s.Index+1, 1, b)
	l.current.Store(next)
	return func() (*state.Outcome, error) { return &out, nil }
}

// alone is a membership that can't be read: there are no members to look after.
type alone struct{ configuration }

type configuration = Membership

func (alone) Membership() (membership.Membership, error) {
	return membership.Membership{}, errors.New("none")
}
func (alone) Ask(context.Context, string) (admission.Info, error) {
	return admission.Info{}, errors.New("none")
}

// benchMaster is a master in office on an instantLog, with n sessions.
func benchMaster(b *testing.B, n int) (m *Master, sessions []string) {
	began, log := time.Now(), &instantLog{}
	log.current.Store(state.New())
	m = New(log, alone{}, Options{ID: "r1", LeaseTerm: time.Second, Clock: func() time.Duration { return time.Since(began) }})
	b.Cleanup(func() { // no other replica can take over
		m.stop()
		<-m.done
	})
	for changed := m.officeChanged(); m.inOffice() == nil; changed = m.officeChanged() {
		<-changed
	}
	for range n {
		s, err := m.OpenSession(b.Context(), &Caller{}, &lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: time.Hour.Milliseconds()}})
		if err != nil {
			b.Fatal(err)
		}
		sessions = append(sessions, s.ID)
	}
	return m, sessions
}

// BenchmarkCycle is an acquire and a release of a lock of its own by each of
// many callers at once: what a cycle costs the master beside HTTP, JSON and
// Raft.
func BenchmarkCycle(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", n), func(b *testing.B) {
			m, sessions := benchMaster(b, n)
			var callers sync.WaitGroup
			var done atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			for i, session := range sessions {
				callers.Go(func() {
					path, request := fmt.Sprintf("/bench/%d", i), lockapi.NewLockRequest(session)
					for done.Add(1) <= int64(b.N) {
						if _, err := m.AcquireLock(b.Context(), &Caller{}, &lockapi.AcquireLock{Path: path, LockRequest: request}); err != nil {
							b.Error(err)
							return
						}
						if _, err := m.ReleaseLock(b.Context(), &Caller{}, &lockapi.ReleaseLock{Path: path, Session: session}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			callers.Wait()
		})
	}
}
