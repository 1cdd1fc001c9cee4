package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// audience is the watchers of one file. Each client has one or more of them,
// at one of the replicas in turn. A write starts a round, which ends when the
// last watcher has received the event. One goroutine makes the rounds.
type audience struct {
	path    string
	writer  target.Session
	clients []target.Client
	each    int // watchers of a client

	due      atomic.Int64   // number of events that the watchers should have received so far
	received atomic.Int64   // number that they have received
	last     chan time.Time // of a round: when the last watcher received its event

	once   sync.Once
	broken chan struct{} // closed when the rounds are over
	why    error         // set before broken is closed
}

// The watchers start this many at a time. More than a listener's backlog at
// once would measure the backlog instead of the cell.
const (
	rampStep  = 50
	rampPause = 20 * time.Millisecond
)

// newAudience makes clients, which do not watch yet.
func newAudience(via string, way target.Way, clients, each int, path string, writer target.Session) (*audience, error) {
	a := &audience{path: path, writer: writer, each: each, last: make(chan time.Time, 1), broken: make(chan struct{})}
	for i := range clients {
		one := way
		one.URLs = way.URLs[i%len(way.URLs):][:1]
		c, err := target.NewClient(via, one)
		if err != nil {
			return nil, err
		}
		a.clients = append(a.clients, c)
	}
	return a, nil
}

// gather makes all watchers watch until ctx ends. It returns when a first round
// has reached them all, and fails if that takes longer than bound.
func (a *audience) gather(ctx context.Context, bound time.Duration, running *sync.WaitGroup) error {
	gathering, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	file, err := a.writer.Swap(gathering, a.path, 0, newLetter().next())
	if err != nil && !errors.Is(err, target.ErrChanged) {
		return err
	}
	for i, c := range a.clients {
		running.Go(func() { a.watch(ctx, c, file.Revision) })
		if i%rampStep == rampStep-1 {
			if err := pause(gathering, rampPause); err != nil {
				return err
			}
		}
	}
	_, err = a.round(newLetter())(gathering, time.Now())
	return err
}

func (a *audience) watch(ctx context.Context, c target.Client, after uint64) {
	defer c.Close()
	var all sync.WaitGroup
	for range a.each {
		all.Go(func() {
			err := c.Watch(ctx, a.path, after, a.count)
			if ctx.Err() == nil {
				a.fail(fmt.Errorf("a watcher of %s ended: %w", a.path, err))
			}
		})
	}
	all.Wait()
}

// fail ends the rounds: the number of outstanding events is unknown from now
// on.
func (a *audience) fail(why error) {
	a.once.Do(func() { a.why = why; close(a.broken) })
}

func (a *audience) count() {
	if a.received.Add(1) == a.due.Load() {
		a.last <- time.Now()
	}
}

// round writes and waits until the last watcher has received the event; this
// time is the latency.
func (a *audience) round(l *letter) load.Step {
	return func(ctx context.Context, since time.Time) (time.Duration, error) {
		select {
		case <-a.last: // of an interrupted round
		default:
		}
		a.due.Add(int64(len(a.clients) * a.each))
		if err := a.writer.WriteFile(ctx, a.path, l.next()); err != nil {
			a.fail(err)
		}
		select {
		case at := <-a.last:
			return at.Sub(since), nil
		case <-a.broken:
			return 0, a.why
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
