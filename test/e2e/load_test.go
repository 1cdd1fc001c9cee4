package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// grant is an acknowledged grant: requested at sent, known at acked.
type grant struct {
	lockapi.Grant
	sent, acked time.Time
	kept        bool // not released before the load ends
}

// load is writers that acquire and release continuously, alternately through
// the SDK and by plain calls. Every eighth grant is kept, on a separate path.
// Acknowledged calls go into a history, and the cell is checked against it.
type load struct {
	cell    *cell.Cell
	stop    context.CancelFunc
	writers sync.WaitGroup

	mu       sync.Mutex
	sessions []string
	grants   []grant
	acks     []time.Time // of every call that changed something
	wake     chan struct{}
}

// pace is the minimum interval of a writer's cycles. It leaves the other tests'
// cells their share of the machine.
const pace = 15 * time.Millisecond

func startLoad(t *testing.T, c *cell.Cell, writers int) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{cell: c, stop: stop, wake: make(chan struct{})}
	t.Cleanup(func() {
		stop()
		l.writers.Wait()
	})
	sdk, err := client.New(c.URLs()...)
	must(t, err)
	for i := range writers {
		if i%2 == 0 {
			s, err := sdk.NewSession(cell.Bounded(t), client.Name(fmt.Sprintf("writer %d", i)))
			must(t, err)
			l.run(ctx, t, i, s.ID(), func(path string) (lockapi.Grant, func() error, error) { return viaSDK(t, s, path) })
			continue
		}
		id := open(t, c.Replicas()[i%3], aWhile).ID
		l.run(ctx, t, i, id, l.viaHTTP(t, id, i))
	}
	return l
}

// try acquires a lock and returns the function that releases it.
type try func(path string) (g lockapi.Grant, release func() error, err error)

func viaSDK(t *testing.T, s *client.Session, path string) (lockapi.Grant, func() error, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cell.Step)
	defer cancel()
	for {
		held, err := s.Lock(ctx, path)
		if errors.Is(err, client.ErrJeopardy) {
			continue
		}
		if err != nil {
			return lockapi.Grant{}, nil, err
		}
		g := lockapi.Grant{Path: path, Session: s.ID(), Handle: held.Handle(), Token: held.Token()}
		return g, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), cell.Step)
			defer cancel()
			return held.Unlock(ctx)
		}, nil
	}
}

// viaHTTP starts at another replica with each call.
func (l *load) viaHTTP(t *testing.T, session string, first int) try {
	n := 0
	return func(path string) (g lockapi.Grant, release func() error, err error) {
		n++
		all, at := l.cell.Replicas(), (first+n)%3
		replicas := slices.Concat(all[at:], all[:at])
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cell.Step)
		defer cancel()
		_, err = cell.Insist(ctx, replicas, http.MethodPut, lockRoute(path), ask(session, fmt.Sprint(n), 5*time.Second), &g)
		return g, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), cell.Step)
			defer cancel()
			_, err := cell.Insist(ctx, replicas, http.MethodDelete, releaseRoute(path, session, g.Handle, g.Token), nil, nil)
			return err
		}, err
	}
}

// run runs one writer until stop; it ends only between two cycles.
func (l *load) run(ctx context.Context, t *testing.T, writer int, session string, take try) {
	l.mu.Lock()
	l.sessions = append(l.sessions, session)
	l.mu.Unlock()
	l.writers.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			g := grant{sent: time.Now(), kept: n%8 == 0}
			path := fmt.Sprintf("/load/%d/turn", writer)
			switch {
			case g.kept:
				path = fmt.Sprintf("/load/%d/kept/%04d", writer, n)
			case n%8 == 4:
				path = "/load/shared"
			}
			var release func() error
			var err error
			if g.Grant, release, err = take(path); err != nil {
				t.Errorf("writer %d: acquire %s: %v", writer, path, err)
				return
			}
			g.acked = time.Now()
			l.note(g)
			if !g.kept {
				if err := release(); err != nil {
					t.Errorf("writer %d: release %s: %v", writer, path, err)
					return
				}
				l.note(grant{acked: time.Now()})
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
}

func (l *load) note(g grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.Token != 0 {
		l.grants = append(l.grants, g)
	}
	l.acks = append(l.acks, g.acked)
	close(l.wake)
	l.wake = make(chan struct{})
}

// progress waits until n more calls were acknowledged.
func (l *load) progress(t *testing.T, n int) {
	t.Helper()
	deadline := cell.Bounded(t)
	l.mu.Lock()
	want := len(l.acks) + n
	for len(l.acks) < want {
		wake := l.wake
		l.mu.Unlock()
		select {
		case <-wake:
		case <-deadline.Done():
			t.Fatalf("the load has stopped: waited for %d more acknowledgements", n)
		}
		l.mu.Lock()
	}
	l.mu.Unlock()
}

// gap returns the longest time without an acknowledgement that extends beyond
// since.
func (l *load) gap(since time.Time) time.Duration {
	l.mu.Lock()
	acks := slices.Clone(l.acks)
	l.mu.Unlock()
	slices.SortFunc(acks, time.Time.Compare)
	longest := time.Duration(0)
	for i := 1; i < len(acks); i++ {
		if acks[i].After(since) {
			longest = max(longest, acks[i].Sub(acks[i-1]))
		}
	}
	return longest
}

// end ends the writers and checks the cell against the history: each session
// lives, each kept grant is held, no other lock is held, and tokens only grew.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	l.writers.Wait()
	for _, r := range l.cell.Replicas() {
		if r.Running() {
			l.checkState(t, r)
		}
	}
	checkTokens(t, l.grants)
	t.Logf("%d calls were acknowledged, %d of them grants", len(l.acks), len(l.grants))
}

// checkState reads everything through one replica.
func (l *load) checkState(t *testing.T, r *cell.Replica) {
	t.Helper()
	c, err := client.New(r.URL)
	must(t, err)
	held := map[string]lockapi.Lock{}
	for lock, err := range c.ListLocks(cell.Bounded(t), "/load/") {
		must(t, err)
		held[lock.Path] = lock
	}
	for _, g := range l.grants {
		if !g.kept {
			continue
		}
		lock := held[g.Path]
		delete(held, g.Path)
		if len(lock.Holders) != 1 || lock.Holders[0].Session != g.Session || lock.Holders[0].Handle != g.Handle || lock.Holders[0].Token != g.Token {
			t.Errorf("through %s: lost a grant that was acknowledged: %+v; the lock is %+v", r.ID, g, lock)
		}
	}
	for path, lock := range held {
		t.Errorf("through %s: held though its release was acknowledged: %s %+v", r.ID, path, lock)
	}
	for _, id := range l.sessions {
		if _, err := admin.New(c).ReadSession(cell.Bounded(t), id); err != nil {
			t.Errorf("through %s: lost session %s: %v", r.ID, id, err)
		}
	}
}

// checkTokens: a grant that was requested after another was known has a higher
// token, and all tokens differ.
func checkTokens(t *testing.T, grants []grant) {
	t.Helper()
	byAck := slices.SortedFunc(slices.Values(grants), func(a, b grant) int { return a.acked.Compare(b.acked) })
	bySent := slices.SortedFunc(slices.Values(grants), func(a, b grant) int { return a.sent.Compare(b.sent) })
	seen := map[uint64]bool{}
	var highest uint64 // of the grants known before the current request
	known := 0
	for _, g := range bySent {
		for ; known < len(byAck) && byAck[known].acked.Before(g.sent); known++ {
			highest = max(highest, byAck[known].Token)
		}
		if g.Token <= highest {
			t.Errorf("token %d was granted after %d: %+v", g.Token, highest, g)
		}
		if seen[g.Token] {
			t.Errorf("token %d was granted twice: %+v", g.Token, g)
		}
		seen[g.Token] = true
	}
}
