package main

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// tally is a file that is written by compare-and-set, and its sessions.
type tally struct {
	target.Session            // without other methods
	mu             sync.Mutex // guards now
	now            target.File
	forgetful      bool // it treats every write as the first one
}

func (s *tally) Swap(_ context.Context, _ string, revision uint64, content []byte) (target.File, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.Revision != revision {
		return s.now, target.ErrChanged
	}
	if s.forgetful {
		content = []byte("1")
	}
	s.now = target.File{Revision: s.now.Revision + 1, Content: content}
	return s.now, nil
}

func increments(t *testing.T, file *tally, tries *atomic.Int64) *load.Result {
	file.now = target.File{Revision: 7, Content: []byte("0")}
	var steps []load.Step
	for range 4 {
		c := &counter{path: "/x", now: file.now, tries: tries}
		steps = append(steps, load.Timed(func(ctx context.Context) error { return c.increment(ctx, file) }))
	}
	r, err := load.Plan{Duration: 10 * time.Second, Drain: time.Second}.Run(t.Context(), steps, load.Hooks{})
	must(t, err)
	return r
}

// TestIncrements: an increment counts once, after any number of tries; each try
// is one call.
func TestIncrements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		file := &tally{}
		r := increments(t, file, &tries)
		n, err := strconv.ParseInt(string(file.now.Content), 10, 64)
		counted := r.Latency.TotalCount()
		if err != nil || r.Errors != 0 || n < counted || n > counted+4 { // increments that end with the window are not counted
			t.Errorf("the counter is %d, %v, after %d increments and %d errors (%v)", n, err, counted, r.Errors, r.FirstError)
		}
		if got := tries.Load(); got < 4*(n-4) || got > 4*(n+4) { // each of four tries at every value
			t.Errorf("%d tries for %d increments", got, n)
		}
	})
}

// TestLostIncrements: a cell that loses increments is detected.
func TestLostIncrements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := increments(t, &tally{forgetful: true}, new(atomic.Int64))
		if r.Errors == 0 || !strings.Contains(r.FirstError.Error(), `/x was 1 at revision 8 and is "1" at revision 9`) {
			t.Errorf("%d errors, the first %v", r.Errors, r.FirstError)
		}
	})
}
