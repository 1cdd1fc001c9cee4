package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/test/internal/target"
)

// stage is a file, its writer's session, and its watchers: the i-th of them
// receives the event i milliseconds after each write.
type stage struct {
	target.Session
	mu      sync.Mutex // guards changes
	changes []chan bool
	deaf    error // error with which each watcher ends at the second change
}

func (s *stage) Swap(context.Context, string, uint64, []byte) (target.File, error) {
	return target.File{Revision: 7}, target.ErrChanged
}

func (s *stage) WriteFile(context.Context, string, []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.changes {
		c <- true
	}
	return nil
}

type listener struct {
	target.Client
	s     *stage
	delay time.Duration
}

func (l *listener) Close() error { return nil }

func (l *listener) Watch(ctx context.Context, _ string, after uint64, onChange func()) error {
	if after != 7 {
		return errors.New("it watches after another revision")
	}
	c := make(chan bool, 100)
	l.s.mu.Lock()
	l.s.changes = append(l.s.changes, c)
	l.s.mu.Unlock()
	for n := 1; ; n++ {
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
		if n == 2 && l.s.deaf != nil {
			return l.s.deaf
		}
		time.Sleep(l.delay)
		onChange()
	}
}

func newStage(n int) (*stage, *audience) {
	s := &stage{}
	a := &audience{path: "/x", writer: s, each: 1, last: make(chan time.Time, 1), broken: make(chan struct{})}
	for i := range n {
		a.clients = append(a.clients, &listener{s: s, delay: time.Duration(i+1) * time.Millisecond})
	}
	return s, a
}

// gathered makes all watchers of an audience watch.
func gathered(t *testing.T, a *audience) {
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	must(t, a.gather(ctx, time.Minute, &running))
}

// TestRounds: a round lasts until the last watcher has received the event, and
// no longer.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := newStage(rampStep)
		gathered(t, a)
		step := a.round(newLetter())
		for range 3 {
			if took, err := step(t.Context(), time.Now()); err != nil || took != rampStep*time.Millisecond {
				t.Errorf("a round took %v, %v; want %d ms", took, err, rampStep)
			}
		}
	})
}

// TestRoundsAfterOneThatWasCutOff: the end of an interrupted round is not taken
// for the end of the next one.
func TestRoundsAfterOneThatWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := newStage(rampStep)
		gathered(t, a)
		step := a.round(newLetter())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := step(ctx, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a round that is cut off: %v", err)
		}
		time.Sleep(time.Second)
		if took, err := step(t.Context(), time.Now()); err != nil || took != rampStep*time.Millisecond {
			t.Errorf("the next round took %v, %v", took, err)
		}
	})
}

// TestRoundsEndWithAWatcher: the end of a watcher ends the rounds with its
// error.
func TestRoundsEndWithAWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := newStage(rampStep)
		s.deaf = errors.New("deaf")
		gathered(t, a)
		for range 2 {
			if _, err := a.round(newLetter())(t.Context(), time.Now()); !errors.Is(err, s.deaf) || !strings.Contains(err.Error(), "/x") {
				t.Errorf("a round without all watchers: %v", err)
			}
		}
	})
}
