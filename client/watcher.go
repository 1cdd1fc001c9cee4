package client

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/stoutlock/stout/lockapi"
)

// Reasons why a watcher leaves its feed and continues.
var (
	errBehind = errors.New("the watch is behind the others")
	errAlone  = errors.New("the watches that share a stream were refused")
	errShared = errors.New("there is another watch to share a stream with")
)

// watcher is one loop over events. It runs in the caller's goroutine, and has a
// feed most of the time. While it has a feed, the mutex of feeds guards from,
// covered, proven and end.
type watcher struct {
	c      *Client
	filter filter
	yield  func(Event, error) bool
	own    bool // it shares its stream with no other

	from    uint64      // all events up to it were delivered
	covered bool        // so were those up to feed.at
	proven  bool        // a replica has accepted the request for its events
	queue   chan *Event // closed when the watcher has left the feed
	queued  int         // bytes of contents in the queue
	end     error       // why the feed removed it
}

// run delivers events until the watch is over, and returns the reason.
func (m *watcher) run(ctx context.Context) error {
	if m.from == FromNow {
		now, err := m.c.Revision(ctx)
		if err != nil {
			return err
		}
		m.from = now
	}
	for {
		err := errShared
		switch f, way := m.c.feeds.join(m); way {
		case shared:
			err = m.follow(ctx, f)
		case behind:
			err = errBehind
		case alone:
			err = m.readAlone(ctx)
		}
		if err == errBehind {
			err = (&lone{m: m}).run(ctx, func() bool { return m.c.feeds.admits(m) })
		}
		switch err {
		case errShared, errCaughtUp:
		case errAlone:
			m.own = true
		default:
			return err
		}
	}
}

// readAlone yields the events of a stream of its own, until there is another
// watch to share one with.
func (m *watcher) readAlone(ctx context.Context) error {
	under, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	l := &lone{m: m, cut: cut}
	l.at.Store(m.from)
	if !m.own && !m.c.feeds.enter(l) {
		return errShared
	}
	defer m.c.feeds.exit(l)
	err := l.run(under, nil)
	if ctx.Err() == nil && context.Cause(under) == errShared && err != errStopped {
		return errShared
	}
	return err
}

// follow yields the events of a feed.
func (m *watcher) follow(ctx context.Context, f *feed) error {
	defer f.leave(m)
	for {
		select {
		case e, ok := <-m.queue:
			if !ok {
				return m.end
			}
			f.dequeued(m, e)
			if !m.yield(*e, nil) {
				return errStopped
			}
		case <-ctx.Done():
			return stopped(ctx)
		}
	}
}

// lone is a watcher that reads events by itself.
type lone struct {
	m   *watcher
	cut context.CancelCauseFunc // ends that with errShared; nil while it reads old events
	at  atomic.Uint64           // m.from, for others
}

// reached is called with each event and bookmark.
func (l *lone) reached(revision uint64) {
	l.m.from = revision
	l.at.Store(revision)
}

func (l *lone) run(ctx context.Context, present func() bool) error {
	w := watch{c: l.m.c, to: l, present: present}
	return w.run(ctx)
}

func (l *lone) begin() (filter, uint64) { return l.m.filter, l.m.from }

func (l *lone) opened(func()) {}
func (l *lone) accepted()     {}

func (l *lone) event(e *lockapi.CellEvent) error {
	l.reached(e.Revision)
	if !l.m.yield(Event{CellEvent: *e}, nil) {
		return errStopped
	}
	return nil
}

func (l *lone) gap(at lockapi.Compacted) (uint64, error) {
	l.reached(at.Revision)
	if !l.m.yield(Event{Compacted: &at}, nil) {
		return l.m.from, errStopped
	}
	return l.m.from, nil
}
