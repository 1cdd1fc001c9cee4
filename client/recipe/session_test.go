package recipe_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/client/stouttest"
)

// TestNewSessions: functions that run until their context ends do so with
// another session after each one that has ended.
func TestNewSessions(t *testing.T) {
	working := func(working chan<- bool) func(context.Context) error {
		return func(ctx context.Context) error {
			working <- true
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}
	name := client.Name("worker")
	for what, run := range map[string]func(context.Context, *client.Client, func(context.Context) error) error{
		"Hold": func(ctx context.Context, m *client.Client, work func(context.Context) error) error {
			return recipe.Hold(ctx, m, "/t", func(ctx context.Context, _ *client.Held) error { return work(ctx) }, name)
		},
		"Lead": func(ctx context.Context, m *client.Client, work func(context.Context) error) error {
			return recipe.Lead(ctx, m, "/t", nil, recipe.Callbacks{Started: func(ctx context.Context, _ *recipe.Leadership) error { return work(ctx) }}, name)
		},
		"EachPeriod": func(ctx context.Context, m *client.Client, work func(context.Context) error) error {
			return recipe.EachPeriod(ctx, m, "/t", time.Second, func(ctx context.Context, _ time.Time, _ *client.Held) error { return work(ctx) }, name)
		},
		"Work": func(ctx context.Context, m *client.Client, work func(context.Context) error) error {
			q, err := recipe.NewQueue("/t/")
			if err != nil {
				return err
			}
			return q.Work(ctx, m, func(ctx context.Context, _ recipe.Job) error { return work(ctx) }, name)
		},
	} {
		t.Run(what, func(t *testing.T) {
			inCell(t, func(t *testing.T, c *stouttest.Cell) {
				ctx, stop := context.WithCancel(bounded(t))
				m, other, started, ended := c.Client(), c.Client(), make(chan bool, 1), make(chan error, 1)
				q, err := recipe.NewQueue("/t/")
				must(t, err)
				must(t, second(q.Add(ctx, sessionFor(t, c, other, "adder", longTTL), nil)))
				go func() { ended <- run(ctx, m, working(started)) }()
				for range 3 {
					<-started
					for s, err := range admin.New(other).ListSessions(ctx) {
						if err == nil && s.Name == "worker" {
							err = admin.New(other).KillSession(ctx, s.ID)
						}
						must(t, err)
					}
				}
				<-started
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

// TestHoldIsLostAndRegained: after a forced release, Hold waits for the lock
// again in the same session.
func TestHoldIsLostAndRegained(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		var terms []uint64
		err := recipe.Hold(bounded(t), c.Client(), "/t", func(ctx context.Context, held *client.Held) error {
			if terms = append(terms, held.Token()); len(terms) == 2 {
				return nil
			}
			c.ReleaseByForce("/t")
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != nil || len(terms) != 2 || terms[1] <= terms[0] {
			t.Errorf("terms with tokens %v: %v", terms, err)
		}
	})
}

// TestHoldReturnsTheLossOfAnother: an error about another lock or session is no
// loss of the hold.
func TestHoldReturnsTheLossOfAnother(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		for _, other := range []error{client.ErrLockLost, client.ErrSessionExpired} {
			terms := 0
			err := recipe.Hold(bounded(t), c.Client(), "/t", func(context.Context, *client.Held) error {
				terms++
				return other
			})
			if !errors.Is(err, other) || terms != 1 {
				t.Errorf("%v: %d terms, %v", other, terms, err)
			}
		}
	})
}

// TestPanicClosesTheSession: after a panic of the work nothing stays claimed or
// held.
func TestPanicClosesTheSession(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		m := c.Client()
		q, err := recipe.NewQueue("/q/")
		must(t, err)
		keeper := session(t, c, m, "keeper")
		must(t, second(q.Add(bounded(t), keeper, nil)))
		panics := func(run func() error) {
			defer func() {
				if recover() == nil {
					t.Error("it does not panic")
				}
			}()
			t.Error(run())
		}
		panics(func() error {
			return recipe.Hold(bounded(t), m, "/t", func(context.Context, *client.Held) error { panic("work") })
		})
		panics(func() error {
			return q.Work(bounded(t), m, func(context.Context, recipe.Job) error { panic("job") })
		})
		for s, err := range admin.New(m).ListSessions(t.Context()) {
			if err != nil || s.ID != keeper.ID() {
				t.Errorf("left: %+v, %v", s, err)
			}
		}
	})
}

// TestRefusalsEndRecipes: a refusal that another session would get, too, ends a
// recipe.
func TestRefusalsEndRecipes(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		m, _ := newMeddled(c)
		none := func(context.Context, *client.Held) error { return nil }
		if err := recipe.Hold(bounded(t), m, "/t/", none); !errors.Is(err, client.ErrInvalidArgument) {
			t.Error(err)
		}
		if err := recipe.EachPeriod(bounded(t), m, "/t", 0, nil); err == nil {
			t.Error("a period of 0 is accepted")
		}
	})
}

// TestGuardedAfterASleep: after the machine has slept for longer than the ttl,
// the contexts of a leader's and a worker's work have ended, before any timer
// has run.
func TestGuardedAfterASleep(t *testing.T) {
	inCell(t, func(t *testing.T, cell *stouttest.Cell) {
		var slept atomic.Int64
		start := time.Now()
		c := cell.Client(func(o *client.Config) {
			o.Clock = func() time.Duration { return time.Since(start) + time.Duration(slept.Load()) }
		})
		ended := func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Error("it ended before the sleep")
			}
			slept.Add(int64(time.Hour))
			select {
			case <-ctx.Done():
			default:
				t.Error("Done is open after the sleep")
			}
			if ctx.Err() == nil || context.Cause(ctx) != client.ErrJeopardy {
				t.Errorf("after the sleep: %v, because of %v", ctx.Err(), context.Cause(ctx))
			}
			return nil
		}
		ctx, stop := context.WithCancel(bounded(t))
		defer stop()
		_ = recipe.Lead(ctx, c, "/leader", nil, recipe.Callbacks{Started: func(under context.Context, _ *recipe.Leadership) error {
			defer stop()
			return ended(under)
		}})
		ctx, stop = context.WithCancel(bounded(t))
		defer stop()
		q, err := recipe.NewQueue("/queue/")
		if err == nil {
			_, err = q.Add(ctx, session(t, cell, cell.Client(), "adder"), []byte("job"))
		}
		must(t, err)
		_ = q.Work(ctx, c, func(under context.Context, _ recipe.Job) error {
			defer stop()
			return ended(under)
		})
	})
}

// TestRefusedTokenIsALoss: work that fails because another holder has the lock
// by now is repeated, although the loss was not known yet.
func TestRefusedTokenIsALoss(t *testing.T) {
	stale := errors.New("a resource has seen a higher token")
	inCell(t, func(t *testing.T, cell *stouttest.Cell) {
		c := cell.Client()
		for name, run := range map[string]func(context.Context, func(*client.Held) error) error{
			"Hold": func(ctx context.Context, work func(*client.Held) error) error {
				return recipe.Hold(ctx, c, "/hold", func(_ context.Context, held *client.Held) error { return work(held) })
			},
			"Lead": func(ctx context.Context, work func(*client.Held) error) error {
				return recipe.Lead(ctx, c, "/lead", nil, recipe.Callbacks{
					Started: func(_ context.Context, l *recipe.Leadership) error { return work(l.Held()) }})
			},
		} {
			n := 0
			err := run(bounded(t), func(held *client.Held) error {
				if n++; n == 2 {
					return errDone
				}
				cell.ReleaseByForce(held.Path())
				return stale
			})
			if n != 2 || !errors.Is(err, errDone) {
				t.Errorf("%s: %d attempts, %v", name, n, err)
			}
		}
	})
}

var errDone = errors.New("done")
