package client

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

const (
	// mostQueued is how many events may wait for a watch. A watch with more
	// leaves its feed, and reads the events by itself.
	mostQueued = 64
	// mostQueuedBytes bounds the contents of these events. One event may have
	// more.
	mostQueuedBytes = 1 << 20
	// mostRepeated bounds how many revisions a feed goes back for a new watcher.
	mostRepeated = 256
	// settle is the shortest time between two streams of a feed. So watches that
	// begin together cause one change.
	settle = 50 * time.Millisecond
	// mostQuery bounds the query of a feed with several watchers: proxies accept
	// about 8 KiB.
	mostQuery = 7 << 10
)

// feeds are the streams of one client. All watches of the same types of events,
// with or without contents, share one stream. So no stream brings an event that
// no watch wants. The only watch of its kind reads its stream itself, until
// there is another.
type feeds struct {
	mu    sync.Mutex // guards the following, and all feeds and their watchers
	all   map[feedKey][]*feed
	lones map[feedKey][]*lone
}

type feedKey struct {
	types    string
	contents bool
}

func (f *filter) key() feedKey {
	var types []string
	for _, t := range f.types {
		types = append(types, string(t))
	}
	slices.Sort(types)
	return feedKey{strings.Join(slices.Compact(types), ","), f.contents}
}

// feed is a stream that several watches share.
type feed struct {
	of   *feeds
	w    watch
	stop context.CancelFunc

	watchers []*watcher
	wanted   filter        // covers all watchers
	filter   filter        // of the connection
	at       uint64        // all events up to it that pass the filter were delivered
	narrow   bool          // watchers have left since the connection began
	change   func()        // begins a new connection; nil before this one is open
	open     time.Duration // clock when it was opened
	changes  bool          // change was called, or will be soon
	accepts  bool          // a replica serves the connection's request
}

// admits reports whether a watcher that was too far behind may join now.
func (s *feeds) admits(m *watcher) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, way := s.find(m)
	return way != behind
}

// way is how a watcher reads events.
type way int

const (
	alone  way = iota
	behind     // old events first
	shared
)

// find returns the feed for a watcher; nil if it needs a new one. mu is held.
func (s *feeds) find(m *watcher) (*feed, way) {
	if m.own {
		return nil, alone
	}
	key := m.filter.key()
	for _, f := range s.all[key] {
		if f.filter.covers(&m.filter) || hasRoom(&f.wanted, m) {
			return f, m.wayTo(f.at)
		}
	}
	if l := s.partner(m); l != nil {
		return nil, m.wayTo(l.at.Load())
	}
	return nil, alone
}

// wayTo returns how the watcher reads events to share a stream that is at a
// revision. A watcher far behind the stream reads the old events first.
func (m *watcher) wayTo(at uint64) way {
	if m.from+mostRepeated < at {
		return behind
	}
	return shared
}

// partner returns a watcher that reads alone and can share a stream. mu is held.
func (s *feeds) partner(m *watcher) *lone {
	for _, l := range s.lones[m.filter.key()] {
		if l.m.filter.covers(&m.filter) || hasRoom(&l.m.filter, m) {
			return l
		}
	}
	return nil
}

// enter registers a watcher that reads alone, unless it can share a stream by
// now.
func (s *feeds) enter(l *lone) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, way := s.find(l.m); way != alone {
		return false
	}
	if s.lones == nil {
		s.lones = make(map[feedKey][]*lone)
	}
	key := l.m.filter.key()
	s.lones[key] = append(s.lones[key], l)
	return true
}

func (s *feeds) exit(l *lone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(l)
}

// forget removes a watcher that no longer reads alone. mu is held.
func (s *feeds) forget(l *lone) {
	drop(s.lones, l.m.filter.key(), l)
}

// drop removes a value from a list in a map.
func drop[V comparable](m map[feedKey][]V, key feedKey, v V) {
	rest := slices.DeleteFunc(m[key], func(o V) bool { return o == v })
	if m[key] = rest; len(rest) == 0 {
		delete(m, key)
	}
}

// hasRoom reports whether a request may have one more watcher's paths.
func hasRoom(wanted *filter, m *watcher) bool {
	all := wanted.clone()
	all.add(&m.filter)
	return len(all.query(lockapi.MaxToken).Encode()) <= mostQuery
}

// union returns the filter of all watchers together. mu is held.
func (f *feed) union() (all filter) {
	for i, m := range f.watchers {
		if i == 0 {
			all = m.filter.clone()
		} else {
			all.add(&m.filter)
		}
	}
	return all
}

// join makes a watcher part of a feed, if it is to share one now.
func (s *feeds) join(m *watcher) (*feed, way) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, way := s.find(m)
	if way != shared {
		return nil, way
	}
	m.queue, m.queued, m.end = make(chan *Event, mostQueued), 0, nil
	if f == nil {
		return s.begin(m), shared
	}
	m.covered = m.from >= f.at && f.filter.covers(&m.filter)
	m.proven = m.covered && f.accepts
	f.watchers = append(f.watchers, m)
	if f.wanted.add(&m.filter); !m.covered {
		f.requestChange()
	}
	return f, shared
}

// begin begins a feed with its first watcher. The partner joins it. mu is held.
func (s *feeds) begin(m *watcher) *feed {
	ctx, stop := context.WithCancel(context.Background())
	m.covered, m.proven = false, false
	f := &feed{of: s, stop: stop, watchers: []*watcher{m}, wanted: m.filter.clone(), filter: m.filter, at: m.from}
	f.w = watch{c: m.c, to: f}
	if s.all == nil {
		s.all = make(map[feedKey][]*feed)
	}
	key := m.filter.key()
	s.all[key] = append(s.all[key], f)
	if l := s.partner(m); l != nil {
		s.forget(l)
		l.cut(errShared)
	}
	go f.run(ctx)
	return f
}

// run reads the stream until there are no watchers.
func (f *feed) run(ctx context.Context) {
	for {
		_ = f.w.run(ctx) // each watcher gets its own error
		if !f.failed() {
			return
		}
		f.w = watch{c: f.w.c, to: f}
	}
}

// failed handles an error that ends the watch of the feed, and reports whether
// the feed continues. The error is probably due to the watchers that are not
// proven; they leave the feed, and each asks by itself. If all are proven, all
// leave.
func (f *feed) failed() bool {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	expelled := slices.Clone(f.watchers)
	if expelled = slices.DeleteFunc(expelled, func(m *watcher) bool { return m.proven }); len(expelled) == 0 {
		expelled = slices.Clone(f.watchers)
	}
	for _, m := range expelled {
		f.remove(m, errAlone)
	}
	return len(f.watchers) > 0
}

// leave removes a watcher that ends its loop.
func (f *feed) leave(m *watcher) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.remove(m, errStopped)
}

// remove removes a watcher. The feed ends with its last one. mu is held.
func (f *feed) remove(m *watcher, why error) {
	i := slices.Index(f.watchers, m)
	if i < 0 {
		return
	}
	m.from = f.position(m)
	f.watchers = slices.Delete(f.watchers, i, i+1)
	f.narrow = true
	m.end = why
	close(m.queue)
	if len(f.watchers) > 0 {
		return
	}
	f.stop()
	drop(f.of.all, m.filter.key(), f)
}

// position returns the revision up to which a watcher has all its events. mu is
// held.
func (f *feed) position(m *watcher) uint64 {
	if m.covered {
		return max(m.from, f.at)
	}
	return m.from
}

// begin requests the events of all watchers after the least of their positions.
func (f *feed) begin() (filter, uint64) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.change, f.changes, f.narrow, f.accepts = nil, false, false, false
	for _, m := range f.watchers {
		m.from, m.covered = f.position(m), true
	}
	f.filter = f.union()
	f.wanted = f.filter.clone()
	f.rewind()
	return f.filter, f.at
}

// rewind sets the feed's position to the least of its watchers. mu is held.
func (f *feed) rewind() {
	for i, m := range f.watchers {
		if i == 0 || m.from < f.at {
			f.at = m.from
		}
	}
}

func (f *feed) opened(change func()) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.change, f.open = change, f.w.c.clock.now()
	for _, m := range f.watchers {
		if !m.covered {
			f.requestChange()
		}
	}
}

func (f *feed) accepted() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.accepts = true
	for _, m := range f.watchers {
		m.proven = m.covered
	}
}

// requestChange makes the feed request the events of its present watchers, as
// soon as its connection is open and has settled. mu is held.
func (f *feed) requestChange() {
	if f.change == nil || f.changes {
		return
	}
	f.changes = true
	if rest := settle - (f.w.c.clock.now() - f.open); rest > 0 {
		time.AfterFunc(rest, f.change)
		return
	}
	f.change()
}

func (f *feed) event(e *lockapi.CellEvent) error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	told := false
	for _, m := range slices.Backward(f.watchers) { // queue may remove m
		if !m.covered || e.Revision <= m.from || !m.filter.passes(e) {
			continue
		}
		own := &Event{CellEvent: *e}
		if told {
			own.CellEvent = cloned(e)
		}
		told = true
		f.queue(m, own)
	}
	f.at = e.Revision
	return nil
}

// queue queues an event for a watcher, or removes one that is behind. mu is held.
func (f *feed) queue(m *watcher, e *Event) {
	n := contentSize(e)
	if len(m.queue) == cap(m.queue) || m.queued > 0 && m.queued+n > mostQueuedBytes {
		f.remove(m, errBehind)
		return
	}
	m.queued += n
	m.queue <- e
	if e.Compacted != nil {
		m.from = e.Compacted.Revision
	}
}

// dequeued records that a watcher has taken an event from its queue.
func (f *feed) dequeued(m *watcher, e *Event) {
	if n := contentSize(e); n > 0 {
		f.of.mu.Lock()
		defer f.of.mu.Unlock()
		m.queued -= n
	}
}

func contentSize(e *Event) int {
	switch {
	case e.File == nil:
		return 0
	case e.File.Content != nil:
		return len(*e.File.Content)
	}
	return len(e.File.ContentBase64)
}

// cloned returns a copy of an event that shares nothing its owner may change.
func cloned(e *lockapi.CellEvent) lockapi.CellEvent {
	out := *e
	if e.File != nil {
		out.File = new(*e.File)
		if e.File.Content != nil {
			out.File.Content = new(*e.File.Content)
		}
		out.File.ContentBase64 = slices.Clone(e.File.ContentBase64)
	}
	if e.Hold != nil {
		out.Hold = new(*e.Hold)
	}
	if e.Master != nil {
		out.Master = new(*e.Master)
	}
	return out
}

// reached records the feed's position. If watchers have left, it drops from the
// request what no other watcher wants. Each bookmark calls it, which is often
// enough.
func (f *feed) reached(revision uint64) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.at = revision
	if f.narrow {
		f.narrow = false
		if all := f.union(); !all.covers(&f.filter) {
			f.requestChange()
		}
	}
}

// gap delivers a gap to the watchers at a revision that the replicas do not
// keep, or have not reached. Replicas that do not keep the feed's revision may
// be behind a watcher that is ahead of it.
func (f *feed) gap(at lockapi.Compacted) (uint64, error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	unreached := f.at > at.Revision
	for _, m := range slices.Backward(f.watchers) { // queue may remove m
		if m.from = f.position(m); m.from < at.Oldest || unreached && m.from > at.Revision {
			f.queue(m, &Event{Compacted: new(at)})
		}
	}
	f.rewind()
	return f.at, nil
}
