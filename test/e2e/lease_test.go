package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// request makes a call that the replica must not forward.
func request(ctx context.Context, r *cell.Replica, method, target string, out any) (*http.Response, error) {
	return cell.Send(ctx, r.Via(), method, r.URL+target, http.Header{lockapi.HeaderForward: {lockapi.ForwardNever}}, nil, out)
}

// ownView returns the cell in the replica's own view.
func ownView(ctx context.Context, r *cell.Replica) (view lockapi.Cell, err error) {
	_, err = request(ctx, r, http.MethodGet, lockapi.RouteCell, &view)
	return view, err
}

// leaseReport is a replica's report that it holds the lease: it held it at some
// instant between sent and received, and from that instant for the remaining
// time.
type leaseReport struct {
	replica        string
	epoch          uint64
	sent, received time.Time
	remaining      time.Duration
}

// until returns an instant up to which the lease certainly ran.
func (c leaseReport) until() time.Time { return c.sent.Add(c.remaining) }

// leaseWatch asks every replica again and again whether it holds the lease.
type leaseWatch struct {
	givenUp bool // masters may end their lease early, on a clean stop
	stop    context.CancelFunc
	asking  sync.WaitGroup
	mu      sync.Mutex
	reports []leaseReport
}

// watchLeases fails the test if two replicas hold a lease at the same time.
// givenUp means that masters of this test hand over cleanly, so that a lease
// may end before the time that a report gave.
func watchLeases(t *testing.T, c *cell.Cell, givenUp bool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &leaseWatch{givenUp: givenUp, stop: stop}
	for _, r := range c.Replicas() {
		w.asking.Go(func() { w.ask(ctx, r) })
	}
	t.Cleanup(func() { w.check(t) })
}

func (w *leaseWatch) ask(ctx context.Context, r *cell.Replica) {
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for {
		c := leaseReport{replica: r.ID, sent: time.Now()}
		view, err := ownView(ctx, r)
		c.received = time.Now()
		if err == nil && view.Lease.Held {
			c.epoch, c.remaining = view.Epoch, time.Duration(view.Lease.RemainingMS)*time.Millisecond
			w.mu.Lock()
			w.reports = append(w.reports, c)
			w.mu.Unlock()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check fails the test if two replicas' leases ran at the same time: if the lease of an
// earlier office still ran when a later one had begun elsewhere. A replica ends its
// office before it opens another one.
func (w *leaseWatch) check(t *testing.T) {
	w.stop()
	w.asking.Wait()
	begun := map[uint64]leaseReport{} // by epoch, the earliest known report
	for _, c := range w.reports {
		if first, ok := begun[c.epoch]; !ok || c.received.Before(first.received) {
			begun[c.epoch] = c
		}
	}
	for _, earlier := range w.reports {
		ran := earlier.until()
		if w.givenUp {
			ran = earlier.sent
		}
		for epoch, later := range begun {
			if earlier.epoch < epoch && earlier.replica != later.replica && later.received.Before(ran) {
				t.Errorf("two leases at once:\n%s\n%s", earlier, later)
			}
		}
	}
	t.Logf("%d reports of a lease in %d offices", len(w.reports), len(begun))
}

func (c leaseReport) String() string {
	const layout = "15:04:05.000"
	return fmt.Sprintf("%s, epoch %d: asked %s, answered %s, lease until %s or later",
		c.replica, c.epoch, c.sent.Format(layout), c.received.Format(layout), c.until().Format(layout))
}
