package top

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Source reads the cell in the words of the other stout commands.
type Source interface {
	// Look reads the cell as a whole, with its problems. It ends with ctx or
	// soon after.
	Look(ctx context.Context) (Look, error)
	// Explain describes the lock at a path, and Session a session, in lines of
	// a width that are safe to print. stale allows any replica to answer.
	Explain(ctx context.Context, path string, width int, stale bool) (string, error)
	Session(ctx context.Context, id string, width int, stale bool) (string, error)
	// Say explains an error to the user.
	Describe(err error) *Trouble
}

// Times between questions to the cell, and the limit for an answer.
const (
	beat     = time.Second // between looks, and between readings of visible rows
	patience = 5 * time.Second
	// Members are read every third beat. There is a pause between parts of a list
	// and between batches of events.
	memberBeats = 3
	partPause   = 50 * time.Millisecond
	batchFor    = 100 * time.Millisecond
	// A caller without the right to observe the cell asks less often by this
	// factor: each refusal is a line in the audit log.
	deniedBeats = 30
)

// driver reads what a model wants from the cell and sends it as messages.
type driver struct {
	source Source
	client *client.Client
	send   func(msg any)
	beat   time.Duration

	mu      sync.Mutex
	want    Want
	changed chan struct{} // closed and replaced when want changes
	office  bool          // a master was in office at the last look
	denied  bool          // the last look was refused
}

func newDriver(source Source, c *client.Client, send func(any)) *driver {
	return &driver{source: source, client: c, send: send, beat: beat, changed: make(chan struct{}), office: true, want: Want{Page: cellPage}}
}

// panicked is a panic on a goroutine of the driver. The screen raises it again
// when the terminal is restored.
type panicked struct {
	what  any
	stack []byte
}

// run reads until ctx ends.
func (d *driver) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, job := range []func(context.Context){d.looks, d.members, d.events, d.lists, d.details} {
		wg.Go(func() {
			defer func() {
				if what := recover(); what != nil {
					d.send(panicked{what: what, stack: debug.Stack()})
				}
			}()
			job(ctx)
		})
	}
	wg.Wait()
}

// wants sets what the model wants.
func (d *driver) wants(w Want) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.want
	d.want = w
	old.Again, w.Again = nil, nil // read at the next beat
	if fmt.Sprint(old) != fmt.Sprint(w) {
		close(d.changed)
		d.changed = make(chan struct{})
	}
}

func (d *driver) wanted() (Want, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.want, d.changed
}

// stale reports whether there is no master to answer.
func (d *driver) stale() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.office
}

func (d *driver) options() []client.ReadOption {
	if d.stale() {
		return []client.ReadOption{client.Stale()}
	}
	return nil
}

// pace returns the time between readings that need the right to observe the
// cell.
func (d *driver) pace() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.denied {
		return deniedBeats * d.beat
	}
	return d.beat
}

// lookPace returns the time between looks: shorter where the lease is shown, so
// that renewals are visible.
func (d *driver) lookPace() time.Duration {
	if w, _ := d.wanted(); w.Page == cellPage && w.Detail.Kind == noKind {
		return d.pace() * 3 / 10
	}
	return d.pace()
}

// every runs a job repeatedly, except while paused.
func (d *driver) every(ctx context.Context, pause func() time.Duration, job func(context.Context)) {
	for ctx.Err() == nil {
		w, changed := d.wanted()
		if w.Paused {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		job(ctx)
		sleep(ctx, pause())
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (d *driver) looks(ctx context.Context) {
	d.every(ctx, d.lookPace, func(ctx context.Context) {
		bounded, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		look, err := d.source.Look(bounded)
		if ctx.Err() != nil {
			return
		}
		trouble := d.trouble(err)
		d.mu.Lock()
		d.denied = trouble != nil && trouble.Denied
		d.office = err != nil || inOffice(look.Cell) // without the right to look, readings show it
		d.mu.Unlock()
		d.send(Looked{At: time.Now(), Look: look, Err: trouble})
	})
}

func (d *driver) trouble(err error) *Trouble {
	if err == nil {
		return nil
	}
	return d.source.Describe(err)
}

// members reads the members and the deadlocks. Deadlocks are optional: older
// releases do not report them.
func (d *driver) members(ctx context.Context) {
	d.every(ctx, func() time.Duration { return memberBeats * d.pace() }, func(ctx context.Context) {
		bounded, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		members, err := d.client.Members(bounded, d.options()...)
		if ctx.Err() != nil {
			return
		}
		msg := Membered{At: time.Now(), Members: members, Err: d.trouble(err)}
		if err == nil {
			msg.Cycles, _ = d.client.Deadlocks(bounded, d.options()...) // older releases report none
		}
		d.send(msg)
	})
}

// events sends events from now on. After the first one, every gap is reported.
func (d *driver) events(ctx context.Context) {
	received := make(chan client.Event, mostEvents)
	var sending sync.WaitGroup
	sending.Go(func() { d.forward(ctx, received) })
	defer sending.Wait()
	after, known := uint64(client.FromNow), false
	for ctx.Err() == nil {
		if !known {
			bounded, cancel := context.WithTimeout(ctx, patience)
			now, err := d.client.Revision(bounded)
			cancel()
			if err != nil {
				d.unheard(ctx, err)
				continue
			}
			after, known = now, true
		}
		d.send(Unheard{At: time.Now()})
		for e, err := range d.client.Watch(ctx, after) {
			switch {
			case err != nil:
				d.unheard(ctx, err)
				continue
			case e.Compacted != nil:
				after = e.Compacted.Revision
			default:
				after = max(after, e.Revision)
			}
			select {
			case received <- e:
			case <-ctx.Done():
			}
		}
	}
}

// forward sends events in batches: a screen per event would be too fast to see.
func (d *driver) forward(ctx context.Context, received <-chan client.Event) {
	for ctx.Err() == nil {
		var batch []lockapi.CellEvent
		var full <-chan time.Time
		missed := false
		for over := false; !over; {
			select {
			case e := <-received:
				if missed = e.Compacted != nil; missed {
					over = true
					break
				}
				batch = append(batch, e.CellEvent)
				if full == nil {
					full = time.After(min(batchFor, d.beat))
				}
			case <-full:
				over = true
			case <-ctx.Done():
				return
			}
		}
		if len(batch) > 0 {
			d.send(Happened{At: time.Now(), Events: batch})
		}
		if missed {
			d.send(Missed{At: time.Now()})
		}
	}
}

func (d *driver) unheard(ctx context.Context, err error) {
	if ctx.Err() == nil {
		d.send(Unheard{At: time.Now(), Err: d.trouble(err)})
		sleep(ctx, d.beat)
	}
}

// details reads the open subject: each second, or for a file after an event
// about it.
func (d *driver) details(ctx context.Context) {
	last := Want{}
	for ctx.Err() == nil {
		w, changed := d.wanted()
		fresh := w.Detail != last.Detail || w.Nudge != last.Nudge || w.Width != last.Width
		if w.Detail.Kind != noKind && (fresh || w.Detail.Kind != fileKind && !w.Paused) {
			last = w
			d.readDetail(ctx, w)
		}
		if w.Detail.Kind == noKind {
			last = w
		}
		select {
		case <-changed:
		case <-time.After(d.pace()):
		case <-ctx.Done():
		}
	}
}

// historyLimit is the number of events shown for a lock.
const historyLimit = 200

func (d *driver) readDetail(ctx context.Context, w Want) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := Detailed{Stale: d.stale()}, error(nil)
	switch w.Detail.Kind {
	case lockKind:
		if out.Text, err = d.source.Explain(bounded, w.Detail.Name, w.Width, out.Stale); err == nil {
			var h lockapi.History
			h, err = d.client.History(bounded, w.Detail.Name, historyLimit)
			out.History = &h
		}
	case sessionKind:
		out.Text, err = d.source.Session(bounded, w.Detail.Name, w.Width, out.Stale)
	case fileKind:
		var f client.File
		f, err = d.client.Get(bounded, w.Detail.Name, d.options()...)
		out.File = &f
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		out = Detailed{Err: d.trouble(err)}
		if errors.Is(err, client.ErrNotFound) {
			out.Err = &Trouble{Text: "This file no longer exists."}
		}
	}
	d.send(DetailRead{At: time.Now(), Of: w.Detail, Detailed: out})
}
