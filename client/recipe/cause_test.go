package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/client/stouttest"
)

// A barrier is not up if the context ends for a reason that is itself a failed
// precondition, for example of another goroutine of an errgroup.
func TestRaiseUnderAnEndedContext(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		s := session(t, c, c.Client(), "s")
		ctx, end := context.WithCancelCause(t.Context())
		why := fmt.Errorf("elsewhere: %w", client.ErrPrecondition)
		end(why)
		if err := recipe.Raise(ctx, s, "/barrier"); !errors.Is(err, why) {
			t.Errorf("raised: %v", err)
		}
	})
}

// A leader in the term of another one deletes its value when that one hands over.
func TestHandoverOfTheOuterTerm(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		of := c.Client()
		ctx, end := context.WithCancelCause(t.Context())
		_ = recipe.Lead(ctx, of, "/inner", []byte("me"), recipe.Callbacks{
			Started: func(under context.Context, l *recipe.Leadership) error {
				end(recipe.ErrHandover)
				<-under.Done()
				return nil
			},
			Stopped: func() {
				if now, err := recipe.Now(t.Context(), of, "/inner"); err != nil || now.Revision != 0 {
					t.Errorf("after the term: %+v, %v", now, err)
				}
			},
		})
	})
}
