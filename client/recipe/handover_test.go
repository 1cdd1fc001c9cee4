package recipe_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/lockapi"
)

// TestHandOver: a candidate of higher priority gets the office from a leader
// that hands over, before candidates that waited longer, with no moment without
// a holder or with two. The former leader waits for the office again.
func TestHandOver(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, stop := context.WithCancel(bounded(t))
		m, path := c.Client(), "/t"
		from, err := m.Revision(ctx)
		must(t, err)
		leads := make(chan string, 10)
		var candidates sync.WaitGroup
		candidate := func(name string, priority int, handOver bool) context.CancelFunc {
			own, end := context.WithCancel(ctx)
			candidates.Go(func() {
				_ = recipe.Lead(own, c.Client(), path, []byte(name), recipe.Callbacks{
					Priority: priority,
					Handover: func() bool { return handOver },
					Started: func(ctx context.Context, _ *recipe.Leadership) error {
						leads <- name
						<-ctx.Done()
						if handOver && own.Err() == nil && !errors.Is(context.Cause(ctx), recipe.ErrHandover) {
							t.Errorf("%s lost the office: %v", name, context.Cause(ctx))
						}
						time.Sleep(time.Second) // its last work
						return context.Cause(ctx)
					},
				}, client.Name(name))
			})
			return end
		}
		first := candidate("first", 0, true)
		defer first()
		if name := <-leads; name != "first" {
			t.Fatal(name)
		}
		other := candidate("other", 0, true)
		defer other()
		time.Sleep(time.Second)
		preferred := candidate("preferred", 1, true)
		wantEqual(t, "leads next", <-leads, "preferred")
		more := candidate("most preferred", lockapi.MaxPriority, false)
		wantEqual(t, "leads next", <-leads, "most preferred")
		preferred()
		more()
		wantEqual(t, "leads after those that are preferred", <-leads, "other")
		stop()
		candidates.Wait()

		holders, seen, released := 0, []string{}, uint64(0)
		for e, err := range m.Watch(bounded(t), from, client.OnPath(path), client.OfType(lockapi.EventTypes(lockapi.SubjectLock)...)) {
			must(t, err)
			switch e.Type {
			case lockapi.EventLockAcquired:
				if released > 0 && e.Revision != released+1 {
					t.Errorf("nobody held the lock from revision %d to %d", released, e.Revision)
				}
				seen = append(seen, e.Hold.SessionName)
				holders++
			case lockapi.EventLockReleased:
				holders--
				released = e.Revision
				if len(seen) == 4 {
					want := []string{"first", "preferred", "most preferred", "other"}
					if !slices.Equal(seen, want) {
						t.Errorf("the holders were %q, want %q", seen, want)
					}
					return
				}
			}
			if holders > 1 {
				t.Error("two hold the lock")
			}
		}
	})
}

// TestNoHandOver: a leader that does not hand over stays, and a candidate of
// equal priority does not ask.
func TestNoHandOver(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, stop := context.WithTimeout(bounded(t), 20*time.Second)
		defer stop()
		var asked atomic.Int32
		terms := 0
		var other sync.WaitGroup
		_ = recipe.Lead(ctx, c.Client(), "/t", nil, recipe.Callbacks{
			Priority: 5,
			Handover: func() bool { asked.Add(1); return false },
			Started: func(ctx context.Context, l *recipe.Leadership) error {
				terms++
				for _, priority := range []int{5, 6} {
					other.Go(func() {
						_ = recipe.Lead(ctx, c.Client(), "/t", nil, recipe.Callbacks{Priority: priority,
							Started: func(context.Context, *recipe.Leadership) error { return nil }})
					})
					time.Sleep(4 * time.Second)
					if got, want := int(asked.Load()), priority-5; got != want {
						t.Errorf("a candidate of priority %d asked %d times, want %d", priority, got, want)
					}
				}
				<-ctx.Done()
				return nil
			},
		})
		other.Wait()
		if terms != 1 {
			t.Errorf("%d terms", terms)
		}
	})
}

// TestHandoverIsAskedAgain: a leader that refuses a hand-over is asked again
// while a preferred candidate waits. It gives way only to one that still waits.
func TestHandoverIsAskedAgain(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, stop := context.WithCancel(bounded(t))
		asked, leads := make(chan chan bool), make(chan string, 10)
		var candidates sync.WaitGroup
		candidate := func(name string, priority int, handover func() bool) context.CancelFunc {
			own, end := context.WithCancel(ctx)
			candidates.Go(func() {
				_ = recipe.Lead(own, c.Client(), "/t", []byte(name), recipe.Callbacks{Priority: priority, Handover: handover,
					Started: func(ctx context.Context, _ *recipe.Leadership) error {
						leads <- name
						<-ctx.Done()
						return context.Cause(ctx)
					}})
			})
			return end
		}
		candidate("first", 0, func() bool {
			answer := make(chan bool)
			asked <- answer
			return <-answer
		})
		if name := <-leads; name != "first" {
			t.Fatal(name)
		}
		gone := candidate("second", 1, nil)
		(<-asked) <- false
		late := <-asked
		gone() // while the leader decides
		time.Sleep(time.Second)
		late <- true
		time.Sleep(20 * time.Second)
		if len(leads) > 0 {
			t.Errorf("%s leads after a hand-over to a candidate that is gone", <-leads)
		}
		candidate("third", 1, nil)
		(<-asked) <- true
		wantEqual(t, "leads after the hand-over", <-leads, "third")
		stop()
		candidates.Wait()
	})
}

// TestNoHandoverToASet: a leader does not give way to a waiter for several locks, which
// may not get the others.
func TestNoHandoverToASet(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, stop := context.WithCancel(bounded(t))
		m := c.Client()
		busy := session(t, c, c.Client(), "busy")
		must(t, second(busy.Lock(ctx, "/other")))
		done := make(chan error)
		leads := make(chan bool, 10)
		go func() {
			done <- recipe.Lead(ctx, c.Client(), "/t", []byte("lead"), recipe.Callbacks{Handover: func() bool { return true },
				Started: func(ctx context.Context, _ *recipe.Leadership) error {
					leads <- true
					<-ctx.Done()
					return context.Cause(ctx)
				}})
		}()
		<-leads
		waits, giveUp := context.WithCancel(ctx)
		go func() {
			s := session(t, c, c.Client(), "set")
			_, _ = s.Lock(waits, "/t", client.With("/other"), client.Priority(1))
		}()
		time.Sleep(5 * time.Second)
		l, err := m.ReadLock(ctx, "/t", client.Waiters(5))
		if err != nil || len(l.Holders) != 1 {
			t.Errorf("%d holders, %d waiters: %v", len(l.Holders), l.Waiters, err)
		}
		// The next one gets it once the set has left.
		next := sessionFor(t, c, c.Client(), "next", longTTL)
		got := make(chan error, 1)
		go func() { got <- second(next.Lock(ctx, "/t", client.Priority(1))) }()
		time.Sleep(time.Second)
		giveUp()
		must(t, <-got)
		stop()
		<-done
	})
}
