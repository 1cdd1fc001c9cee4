package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/chaos/internal/exclusion"
	"github.com/stoutlock/stout/test/history"
)

// Options describe a fleet of clients.
type Options struct {
	URLs     []string
	Doors    []string // for Consul's clients, one at each replica
	SDK, Raw int      // numbers of clients that lock
	Files    int      // number of clients that write files; half of them use the SDK
	Door     int      // number of clients that use keys
	Epoch    time.Duration
	Seed     uint64
	Recorder *history.Recorder
	Resource *exclusion.Resource
	Holds    *exclusion.Holds

	grants *grants
}

// Fleet is the clients at work.
type Fleet struct {
	opts    Options
	began   time.Time
	workers []worker
}

// worker is one client. work returns when ctx has ended and everything is
// released, or some seconds after attempts to release it. prove makes one whole
// round on a separate path: a session, a lock or a file, its release; or a
// read.
type worker interface {
	name() string
	work(ctx context.Context, r *rand.Rand, epoch int)
	prove(ctx context.Context) error
	close()
}

// NewFleet makes the clients; they connect when they work.
func NewFleet(opts Options) (*Fleet, error) {
	opts.grants = &grants{}
	f := &Fleet{opts: opts}
	for i := range opts.SDK {
		w, err := newSDK(fmt.Sprintf("sdk%d", i+1), &f.opts)
		if err != nil {
			return nil, err
		}
		f.workers = append(f.workers, w)
	}
	for i := range opts.Raw {
		f.workers = append(f.workers, newRaw(fmt.Sprintf("raw%d", i+1), &f.opts))
	}
	for i := range opts.Files {
		if title := fmt.Sprintf("files%d", i+1); i%2 == 0 {
			f.workers = append(f.workers, newRawFiles(title, &f.opts))
		} else if w, err := newSDKFiles(title, &f.opts); err != nil {
			return nil, err
		} else {
			f.workers = append(f.workers, w)
		}
	}
	for i := range opts.Door {
		f.workers = append(f.workers, newDoor(fmt.Sprintf("door%d", i+1), &f.opts))
	}
	if opts.Door > 0 {
		f.workers = append(f.workers, newFollower("follower", &f.opts))
	}
	f.workers = append(f.workers, newReader("reader", &f.opts))
	return f, nil
}

// Work runs all clients until ctx ends, and waits until they have stopped.
func (f *Fleet) Work(ctx context.Context) {
	f.began = time.Now()
	var running sync.WaitGroup
	for i, w := range f.workers {
		running.Go(func() {
			r := rand.New(rand.NewPCG(f.opts.Seed, uint64(i)))
			for ctx.Err() == nil {
				f.epoch(ctx, w, r)
			}
		})
	}
	running.Wait()
}

// epoch runs a client until the present epoch ends.
func (f *Fleet) epoch(ctx context.Context, w worker, r *rand.Rand) {
	n := int(time.Since(f.began) / f.opts.Epoch)
	ctx, cancel := context.WithDeadline(ctx, f.began.Add(time.Duration(n+1)*f.opts.Epoch))
	defer cancel()
	w.work(ctx, r, n)
}

// Prove makes every client complete a whole round. The error names each client
// that did not before ctx ended.
func (f *Fleet) Prove(ctx context.Context) error {
	errs := make([]error, len(f.workers))
	var running sync.WaitGroup
	for i, w := range f.workers {
		running.Go(func() {
			if err := w.prove(ctx); err != nil {
				errs[i] = fmt.Errorf("client %s makes no progress: %w", w.name(), err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Close ends the clients' connections.
func (f *Fleet) Close() {
	for _, w := range f.workers {
		w.close()
	}
}

// target is a lock that an epoch's clients acquire.
type target struct {
	path  string
	mode  lockapi.Mode
	limit int64
}

// seats is the limit of the semaphores.
const seats = 2

// draw chooses a target: mutexes, a lock that is held in both modes, and a
// semaphore that is sometimes held exclusively.
func draw(r *rand.Rand, epoch int) target {
	at := func(name string) string { return fmt.Sprintf("/chaos/%d/%s", epoch, name) }
	switch n := r.IntN(100); {
	case n < 25:
		return target{at("mutex-a"), lockapi.Exclusive, 0}
	case n < 50:
		return target{at("mutex-b"), lockapi.Exclusive, 0}
	case n < 60:
		return target{at("document"), lockapi.Exclusive, 0}
	case n < 75:
		return target{at("document"), lockapi.Shared, 0}
	case n < 79:
		return target{at("seats"), lockapi.Exclusive, 0}
	}
	return target{at("seats"), lockapi.Shared, seats}
}

// between returns a random duration, at least low and below high.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}
