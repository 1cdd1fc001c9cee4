package cell

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// New starts a cell for a test and waits until every replica knows the master.
// The cell ends with the test; a failing test shows the last lines of the
// replicas' logs.
func New(t testing.TB, opts Options) *Cell {
	t.Helper()
	c := NewPrepared(t, opts)
	for _, r := range c.Replicas() {
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), Step)
	defer cancel()
	if _, err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// NewPrepared is New without the processes: each replica waits for its Start.
func NewPrepared(t testing.TB, opts Options) *Cell {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	c, err := Prepare(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		c.checkRaces(t)
		if t.Failed() {
			c.showLogs(t)
		}
	})
	return c
}

// checkRaces fails the test if a replica's race detector has reported a race.
func (c *Cell) checkRaces(t testing.TB) {
	for _, r := range c.replicas {
		content, err := os.ReadFile(r.LogFile)
		if err != nil {
			continue // never started
		}
		if i := bytes.Index(content, []byte("WARNING: DATA RACE")); i >= 0 {
			t.Errorf("replica %s has a data race:\n%s", r.ID, content[i:min(i+4000, len(content))])
		}
	}
}

// showLogs shows how each replica ended and its last lines.
func (c *Cell) showLogs(t testing.TB) {
	const lines = 80
	for _, r := range c.replicas {
		_, state := r.ExitState()
		t.Logf("replica %s: %s; last lines of its log:\n%s", r.ID, state, r.LogTail(lines))
	}
}

// Step bounds one step of a test. It is no expectation: it only ends a test
// that hangs. The longest steps take about ten seconds on an idle machine.
const Step = 3 * time.Minute

// Bounded returns a context that ends after a Step.
func Bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Step)
	t.Cleanup(cancel)
	return ctx
}

// Ready waits until every running replica knows the master, and returns it.
func (c *Cell) Ready(t testing.TB) *Replica {
	t.Helper()
	master, err := c.WaitReady(Bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return master
}

// WaitMasterOf waits until one of the replicas reports to be master with a
// running lease, and returns it.
func (c *Cell) WaitMasterOf(t testing.TB, replicas ...*Replica) *Replica {
	t.Helper()
	var master *Replica
	err := Wait(Bounded(t), "one of them is master", func(ctx context.Context) error {
		for _, r := range replicas {
			view, err := r.Cell(ctx)
			if err == nil && view.Master != nil && view.Master.ID == r.ID && view.Lease.Held {
				master = r
				return nil
			}
		}
		return errors.New("none of them is master")
	})
	if err != nil {
		t.Fatal(err)
	}
	return master
}
