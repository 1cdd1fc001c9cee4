package readfile

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is the interval at which followed files are read.
	lookEvery = time.Second
	// ReportEvery is the interval of reports that they cannot be used.
	ReportEvery = 24 * time.Hour
)

// Followed is what some files contained when they were last usable. Its methods
// are safe for concurrent use.
type Followed[T any] struct {
	Every time.Duration // between two looks; set before Watch

	names   []string
	most    int64
	parse   func(before *T, contents [][]byte) (*T, error)
	reader  Reader
	present atomic.Pointer[T]

	mu      sync.Mutex // guards the fields below
	from    sight      // of the present content
	seen    *sight     // by the last look; nil if it was the present content
	refused time.Time  // when the refusal of seen was last reported; zero before
	readAt  time.Time  // when the files were last readable
	counts  Counts
}

type sight struct {
	contents [][]byte
	failed   string // why they could not be read
}

func (s *sight) equal(other *sight) bool {
	return s.failed == other.failed && slices.EqualFunc(s.contents, other.contents, bytes.Equal)
}

// Counts counts changes to followed files.
type Counts struct{ Taken, Refused uint64 }

// Follow reads the files, each of at most that many bytes. An empty name means no
// file. parse returns what their contents mean, or why they are not usable; before
// is what is in force, nil at first.
func Follow[T any](names []string, most int64, parse func(before *T, contents [][]byte) (*T, error)) (*Followed[T], error) {
	f := &Followed[T]{Every: lookEvery, names: names, most: most, parse: parse, readAt: time.Now()}
	contents, err := f.read()
	if err != nil {
		return nil, err
	}
	present, err := parse(nil, contents)
	if err != nil {
		return nil, err
	}
	f.present.Store(present)
	f.from = sight{contents: contents}
	return f, nil
}

func (f *Followed[T]) read() (contents [][]byte, err error) {
	contents = make([][]byte, len(f.names))
	for i, name := range f.names {
		if name == "" {
			continue
		}
		if contents[i], err = f.reader.Read(name, f.most); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

// Present returns what is in force.
func (f *Followed[T]) Present() *T { return f.present.Load() }

// Counts returns how many changes were accepted and refused so far.
func (f *Followed[T]) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// Unread returns for how long the files have been unreadable.
func (f *Followed[T]) Unread() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.readAt)
}

// Watch reads the files once a second until ctx ends, and calls report each time:
// changed files are in force, or why they are not. It reports a refusal at once and
// once a day.
func (f *Followed[T]) Watch(ctx context.Context, report func(taken bool, refused error)) {
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			report(f.look())
		case <-ctx.Done():
			return
		}
	}
}

// look reads the files. It accepts them if they are new, usable, and the same as at
// the last look.
func (f *Followed[T]) look() (taken bool, refused error) {
	contents, err := f.read()
	now := sight{contents: contents}
	if err != nil {
		now.failed = err.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.readAt = time.Now()
	}
	if now.equal(&f.from) {
		f.seen = nil
		return false, nil
	}
	if f.seen == nil || !now.equal(f.seen) {
		f.seen, f.refused = &now, time.Time{}
		return false, nil
	}
	var next *T
	if err == nil {
		next, err = f.parse(f.Present(), contents)
	}
	switch {
	case err == nil:
		f.present.Store(next)
		f.from, f.seen = now, nil
		f.counts.Taken++
		return true, nil
	case !f.refused.IsZero() && time.Since(f.refused) < ReportEvery:
		return false, nil
	case f.refused.IsZero():
		f.counts.Refused++
	}
	f.refused = time.Now()
	return false, err
}
