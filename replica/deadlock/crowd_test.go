package deadlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stoutlock/stout/replica/deadlock"
	"github.com/stoutlock/stout/replica/state"
)

// crowd is a cell in which sessions share one lock, and each also waits for it
// exclusively under that many handles.
func crowd(sessions, waits int) *cell {
	c := newCell()
	for i := range sessions {
		c.do(&state.OpenSession{Session: fmt.Sprintf("%05d", i), TTLMS: 1000})
		c.ask(fmt.Sprintf("%05d", i), "/l", shared(0))
	}
	for w := range waits {
		for i := range sessions {
			c.ask(fmt.Sprintf("%05d", i), "/l", handle(fmt.Sprint(w)))
		}
	}
	return c
}

// asks counts how often a search checks whether it must end, which it does
// after a fixed number of steps.
type asks struct {
	context.Context
	n, most int
}

func (a *asks) Err() error {
	if a.n++; a.most > 0 && a.n > a.most {
		return context.Canceled
	}
	return nil
}

// TestWorkIsLinear: twice the sessions take twice the steps, although each
// blocks each.
func TestWorkIsLinear(t *testing.T) {
	work := func(sessions int) int {
		a := &asks{Context: context.Background()}
		if found, err := deadlock.Find(a, crowd(sessions, 3).State, 100); err != nil || len(found) != 100 {
			t.Fatalf("%d cycles, %v", len(found), err)
		}
		return a.n
	}
	if one, two := work(2000), work(4000); two > 2*one+2 {
		t.Errorf("%d steps for 2000 sessions, %d for 4000 (in thousands)", one, two)
	}
}

// TestLongCycle: a cycle of every session is found.
func TestLongCycle(t *testing.T) {
	c := newCell()
	const n = 2000
	name := func(i int) string { return fmt.Sprintf("%05d", i%n) }
	for i := range n {
		c.do(&state.OpenSession{Session: name(i), TTLMS: 1000})
		c.ask(name(i), "/"+name(i))
	}
	for i := range n {
		c.ask(name(i), "/"+name(i+1))
	}
	found := find(t, c.State, 1000)
	if len(found) != 1 || len(found[0]) != n {
		t.Fatalf("%d cycles", len(found))
	}
}

// TestEndsWithItsCaller: the search ends soon after the caller has left.
func TestEndsWithItsCaller(t *testing.T) {
	s := crowd(2000, 3).State
	for most := 1; ; most++ {
		a := &asks{Context: context.Background(), most: most}
		found, err := deadlock.Find(a, s, 100)
		if err == nil {
			return // it had finished before
		}
		if !errors.Is(err, context.Canceled) || found != nil || a.n > most+1 {
			t.Fatalf("%d cycles, %v, after %d more looks", len(found), err, a.n-most)
		}
	}
}
