package recipe_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/stouttest"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

// inCell runs a test in a bubble with an in-memory cell of three replicas.
func inCell(t *testing.T, test func(t *testing.T, c *stouttest.Cell)) {
	t.Helper()
	inCellOf(t, stouttest.Options{}, test)
}

func inCellOf(t *testing.T, o stouttest.Options, test func(t *testing.T, c *stouttest.Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, stouttest.New(t, o)) })
}

// newCell returns a client for an example. All examples share a cell, in real
// time.
func newCell() *client.Client { return shared().Client() }

var shared = sync.OnceValue(func() *stouttest.Cell { return stouttest.New(nil, stouttest.Options{}) })

// ttl is short: a master's death may put the session in jeopardy. longTTL
// outlasts a change of master.
const (
	ttl     = 2 * time.Second
	longTTL = 20 * time.Second
)

// step bounds one step of a test. It only ends tests that hang.
const step = time.Minute

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), step)
	t.Cleanup(cancel)
	return ctx
}

// session opens a session that expires soon after its client is cut off.
func session(t *testing.T, c *stouttest.Cell, of *client.Client, name string) *client.Session {
	t.Helper()
	return sessionFor(t, c, of, name, ttl)
}

func sessionFor(t *testing.T, c *stouttest.Cell, of *client.Client, name string, ttl time.Duration) *client.Session {
	t.Helper()
	s, err := of.NewSession(bounded(t), client.TTL(ttl), client.Name(name))
	must(t, err)
	t.Cleanup(func() {
		c.Mend(of)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantEqual compares a result.
func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// second returns the error of a call with a result.
func second[T any](_ T, err error) error { return err }

// receive waits for the next wanted value, and logs the others.
func receive[T any](t *testing.T, from <-chan T, what string, wanted func(T) bool) T {
	t.Helper()
	over := time.After(step)
	for {
		select {
		case v := <-from:
			if wanted(v) {
				return v
			}
			t.Logf("until %s: %v", what, v)
		case <-over:
			t.Fatalf("%s: this did not happen", what)
		}
	}
}
