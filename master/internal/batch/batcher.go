// Package batch joins the commands of an office into log entries, and returns
// to each caller the result of its command. It knows neither the meaning of
// commands nor the lease that an entry renews.
//
// The clock is read before a batch is proposed (batches.go): the lease counts
// from there.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/internal/progress"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// Options configure a batcher for one office.
type Options struct {
	Epoch   uint64
	LeaseMS int64
	Clock   func() time.Duration
	// Submit hands a batch to the log. Due returns a command that the log
	// itself wants to add to it; see master.Log.
	Submit func(state.Batch) func() (*state.Outcome, error)
	Due    func() (state.Command, bool)
	// Accepted receives each accepted batch and the instant at which its
	// proposal began, in log order on one goroutine, before any caller gets
	// its result.
	Accepted func(p time.Duration, out *state.Outcome)
	// Queued observes how long each command waited for its entry to be
	// sent. Replied observes how long after the entry was applied the
	// caller continued.
	Queued, Replied *metric.Histogram
	// Progress watches the loops.
	Progress *progress.Watch
	// Failed receives the error of the first batch that was not accepted.
	// The batcher refuses all commands after it.
	Failed func(error)
}

// Batcher joins the commands of many callers into log entries: while entries
// are under way, commands gather for the next (batches.go). There is no timer;
// a single command leaves at once. One batcher serves one office.
type Batcher struct {
	opts  Options
	spare sync.Pool // calls that were answered: no other goroutine refers to them

	mu      sync.Mutex
	pending []*call
	waiting int // callers between Begin and its result
	renew   bool
	pace    pace
	refuse  error         // set by Drain, Close or a failure; refuses all later commands
	drained chan struct{} // set by Drain; closed when the last caller has its result
	closed  bool
	wakeup  wait.Wakeup

	slots    chan struct{}
	inflight chan flight
	done     chan struct{} // closed by Close
	loops    sync.WaitGroup
}

type call struct {
	cmd    state.Command
	result chan reply // capacity 1
	traced *Timeline  // nil for most
	asked  time.Time
}

type reply struct {
	result state.Result
	err    error
	at     time.Time // when the outcome was known; zero with an error
}

type flight struct {
	proposed time.Duration
	sent     time.Time
	calls    []*call
	wait     func() (*state.Outcome, error)
}

// New starts a batcher. Close ends it.
func New(o Options) *Batcher {
	b := &Batcher{
		opts:     o,
		spare:    sync.Pool{New: func() any { return &call{result: make(chan reply, 1)} }},
		wakeup:   wait.NewWakeup(),
		slots:    make(chan struct{}, membership.BatchesInFlight),
		inflight: make(chan flight, membership.BatchesInFlight),
		done:     make(chan struct{}),
	}
	b.loops.Go(b.send)
	b.loops.Go(b.receive)
	return b
}

// Begin accepts one command and returns at once: a command that begins later is
// behind it in the log. The returned function waits for the result, and must be
// called once. Its error wraps membership.ErrNotApplied if the command certainly
// has no effect, and membership.ErrUnknown if it may have one. traced, which may
// be nil, records what happens to the command.
func (b *Batcher) Begin(cmd state.Command, traced *Timeline) func() (state.Result, error) {
	asked := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refuse; err != nil {
		return func() (state.Result, error) { return nil, fmt.Errorf("%w: %w", membership.ErrNotApplied, err) }
	}
	c := b.spare.Get().(*call)
	c.cmd, c.traced, c.asked = cmd, traced, asked
	b.pending = append(b.pending, c)
	b.waiting++
	b.wakeup.Wake()
	return func() (state.Result, error) { return b.result(c) }
}

func (b *Batcher) result(c *call) (state.Result, error) {
	defer b.leave()
	select {
	case r := <-c.result:
		c.cmd, c.traced = state.Command{}, nil // which may be large
		b.spare.Put(c)
		if r.err == nil {
			b.opts.Replied.Observe(time.Since(r.at))
		}
		return r.result, r.err
	case <-b.done:
	}
	return b.abandon(c)
}

func (b *Batcher) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting--
	if b.waiting == 0 && b.drained != nil {
		close(b.drained)
		b.drained = nil
	}
}

// abandon returns the error of a call that waits when the batcher ends. The
// call had no effect if it was not handed over yet.
func (b *Batcher) abandon(c *call) (state.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case r := <-c.result:
		return r.result, r.err
	default:
	}
	if slices.Contains(b.pending, c) {
		return nil, fmt.Errorf("%w: %w", membership.ErrNotApplied, b.refuse)
	}
	return nil, fmt.Errorf("%w: %w", membership.ErrUnknown, b.refuse)
}

// Renew proposes an empty batch, which only renews the lease, unless commands
// are waiting anyway.
func (b *Batcher) Renew() {
	b.mu.Lock()
	b.renew = true
	b.mu.Unlock()
	b.wakeup.Wake()
}

// Drain refuses further commands, with why as the reason, and returns when all
// accepted ones have been answered, or ctx ends.
func (b *Batcher) Drain(ctx context.Context, why error) error {
	b.mu.Lock()
	if b.refuse == nil {
		b.refuse = why
	}
	if b.waiting == 0 {
		b.mu.Unlock()
		return nil
	}
	if b.drained == nil {
		b.drained = make(chan struct{})
	}
	drained := b.drained
	b.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close refuses further commands and releases every waiting caller, with why as
// the reason. It does not wait for entries under way.
func (b *Batcher) Close(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse == nil {
		b.refuse = why
	}
	if !b.closed {
		b.closed = true
		close(b.done)
	}
}

// Mutex returns the batcher's mutex, for the watch that looks for hanging ones.
func (b *Batcher) Mutex() sync.Locker { return &b.mu }

// receive handles outcomes in log order.
func (b *Batcher) receive() {
	step := b.opts.Progress.Step("answer")
	defer b.opts.Progress.Remove(step)
	for f := range b.inflight {
		out, err := f.wait()
		step.Begin()
		if err == nil && !out.Accepted {
			err = fmt.Errorf("%w: the batch was of epoch %d, the cell is in epoch %d", membership.ErrNotApplied, b.opts.Epoch, out.Epoch)
		}
		if err != nil {
			b.broke(f, err)
		} else {
			faultpoint.Hit(faultpoint.BatchAnswered)
			at := time.Now()
			b.opts.Accepted(f.proposed, out)
			for i, c := range f.calls {
				b.opts.Queued.Observe(f.sent.Sub(c.asked))
				if c.traced != nil {
					c.traced.add(Write{Asked: c.asked, Sent: f.sent, Done: time.Now(), Index: out.Index, With: len(out.Results)})
				}
				c.result <- reply{result: out.Results[i], at: at}
			}
		}
		b.arrived()
		step.End()
	}
}

// broke answers a batch that failed and ends the batcher: an office that lost
// one entry is over.
func (b *Batcher) broke(f flight, err error) {
	for _, c := range f.calls {
		c.result <- reply{err: err}
	}
	b.mu.Lock()
	first := !b.closed
	b.mu.Unlock()
	b.Close(errors.New("the office has ended"))
	if first {
		b.opts.Failed(err)
	}
}
