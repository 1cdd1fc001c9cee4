package master

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/events"
)

// TestAccessChaos: rights and masters change at random. Each call is checked by
// what was acknowledged before it began, at any replica.
func TestAccessChaos(t *testing.T) {
	for _, seed := range testrun.Sample(t, 3, 12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 2))
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				know(c)
				first := c.office("r1").master
				must(t, second(first.EnableAccess(t.Context(), new(root(Operate)), &lockapi.EnableAccess{})))
				work, stop := context.WithCancel(t.Context())
				x := &accessChaos{chaos: chaos{t: t, c: c, work: work, rng: rng}}
				var running sync.WaitGroup
				running.Go(x.toggle)
				for i := range 4 {
					running.Go(func() { x.write(i) })
				}
				x.faults(25)
				x.heal()
				stop()
				pass(time.Minute)
				running.Wait()
				x.verify()
			})
		})
	}
}

// accessChaos is a cell under faults in which one caller's right to write is
// given and revoked.
type accessChaos struct {
	chaos
	changes []rightChange // in order
	writes  []rightWrite  // guarded by chaos.mu
}

// rightChange is a change of the right that took effect between two instants.
type rightChange struct {
	allow        bool
	began, acked time.Time
}

// rightWrite is a write under the right, of a file of its own.
type rightWrite struct {
	path         string
	began, ended time.Time
	err          error
}

// toggle gives and revokes the right. It repeats a change with an unknown
// outcome until it is acknowledged.
func (x *accessChaos) toggle() {
	for allow := true; x.work.Err() == nil; allow = !allow {
		change := lockapi.PutRule{Path: "/p", AccessLists: lockapi.AccessLists{Write: []string{}}}
		if allow {
			change.Write = []string{"user:a"}
		}
		c := rightChange{allow: allow, began: time.Now()}
		for {
			if x.attempt(change) {
				break
			}
			if x.work.Err() != nil {
				return
			}
			pass(100 * time.Millisecond)
		}
		c.acked = time.Now()
		x.changes = append(x.changes, c)
		pass(x.upTo(time.Second))
	}
}

// attempt makes the change at some replica, without waiting for a replica that
// is cut off. The change takes effect in the same office as the next one, and
// before it, or never.
func (x *accessChaos) attempt(change lockapi.PutRule) bool {
	done := make(chan error, 1)
	go func() { done <- second(x.anyMaster().PutRule(context.Background(), new(root(Operate)), &change)) }()
	select {
	case err := <-done:
		return err == nil
	case <-time.After(300 * time.Millisecond):
		return false
	}
}

func (x *accessChaos) anyMaster() *Master { return x.c.nodes[x.upTo(3)].master }

func (x *accessChaos) write(writer int) {
	for n := 0; x.work.Err() == nil; n++ {
		w := rightWrite{path: fmt.Sprintf("/p/%d-%d", writer, n), began: time.Now()}
		_, w.err = x.anyMaster().WriteFile(context.Background(), new(by("user:a", WriteAt, w.path)), &lockapi.WriteFile{Path: w.path})
		w.ended = time.Now()
		if !errors.Is(w.err, lockapi.CodeNoMaster) {
			x.mu.Lock()
			x.writes = append(x.writes, w)
			x.mu.Unlock()
		}
		pass(x.upTo(200 * time.Millisecond))
	}
}

// verify compares the answers that callers got with what happened.
func (x *accessChaos) verify() {
	node := x.c.nodes[0]
	for _, n := range x.c.nodes {
		if n.State().Index > node.State().Index {
			node = n
		}
	}
	found, _, err := node.Events().Read(0, events.Filter{}, 1<<20)
	if err != nil {
		x.t.Fatal(err)
	}
	var made []string
	for _, e := range found {
		if f := e.File(); f != nil {
			made = append(made, f.Path)
		}
	}
	denied, done := 0, 0
	for _, w := range x.writes {
		had := slices.Contains(made, w.path)
		refused := errors.Is(w.err, lockapi.CodePermissionDenied)
		switch allowed, certain := x.rightAt(w); {
		case refused && had:
			x.t.Errorf("%s was refused, and was written", w.path)
		case w.err == nil && !had:
			x.t.Errorf("%s was acknowledged, and was not written", w.path)
		case certain && !allowed && (had || !refused):
			x.t.Errorf("%s began after the right was taken away, and came to %v; written: %v", w.path, w.err, had)
		case certain && allowed && refused:
			x.t.Errorf("%s began after the right was given, and was refused", w.path)
		case refused:
			denied++
		case had:
			done++
		}
	}
	x.t.Logf("%d changes; of %d writes %d were refused and %d made", len(x.changes), len(x.writes), denied, done)
	if denied < 5 || done < 5 {
		x.t.Errorf("of %d writes %d were refused and %d made: that attacks nothing", len(x.writes), denied, done)
	}
}

// rightAt reports whether the writer had the right, and whether that was
// constant during the write.
func (x *accessChaos) rightAt(w rightWrite) (allowed, certain bool) {
	for i, c := range x.changes {
		last := i+1 == len(x.changes)
		if w.began.After(c.acked) && (last || w.ended.Before(x.changes[i+1].began)) {
			return c.allow, !last // the next change may be under way
		}
	}
	return false, false
}
