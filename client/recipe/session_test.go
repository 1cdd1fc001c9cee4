package recipe_test

import (
	"context"
	"errors"
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
				if err != nil {
					t.Fatal(err)
				}
				if _, err := q.Add(ctx, sessionFor(t, c, other, "adder", longTTL), nil); err != nil {
					t.Fatal(err)
				}
				go func() { ended <- run(ctx, m, working(started)) }()
				for range 3 {
					<-started
					for s, err := range admin.New(other).ListSessions(ctx) {
						if err == nil && s.Name == "worker" {
							err = admin.New(other).KillSession(ctx, s.ID)
						}
						if err != nil {
							t.Fatal(err)
						}
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
