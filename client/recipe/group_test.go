package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/client/stouttest"
)

// members sends a group's members on a channel, as "name=value ...".
func members(t *testing.T, c *client.Client, dir string) <-chan string {
	out := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for all, err := range recipe.Members(ctx, c, dir) {
			if err != nil {
				return
			}
			var words []string
			for _, m := range all {
				words = append(words, fmt.Sprintf("%s=%s", m.Name, m.Value))
			}
			out <- strings.Join(words, " ")
		}
	}()
	return out
}

func same(want string) func(string) bool { return func(got string) bool { return got == want } }

// TestMembers: a member that dies leaves the group, one that returns joins
// again, and a change of master changes no membership.
func TestMembers(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, dir := bounded(t), "/t/"
		seen := members(t, c.Client(), dir)
		receive(t, seen, "the group is empty", same(""))
		staying, leave := context.WithCancel(ctx)
		ended := make(chan error, 1)
		a, b := c.Client(), c.Client()
		go func() { ended <- recipe.Stay(staying, a, dir, "a", []byte("1"), client.TTL(ttl)) }()
		receive(t, seen, "a is there", same("a=1"))
		s := session(t, c, b, "b")
		must(t, recipe.Join(ctx, s, dir, "b", []byte("2")))
		receive(t, seen, "b is there", same("a=1 b=2"))

		c.KillMaster()
		c.IsolateMaster()
		must(t, recipe.Join(ctx, s, dir, "b", []byte("3")))
		wantEqual(t, "after changes of master", <-seen, "a=1 b=3")

		c.Cut(a)
		receive(t, seen, "a is gone", same("b=3"))
		c.Mend(a)
		receive(t, seen, "a is back", same("a=1 b=3"))
		must(t, recipe.Leave(ctx, s, dir, "b"))
		receive(t, seen, "b has left", same("a=1"))
		leave()
		receive(t, seen, "a has left", same(""))
		if err := <-ended; err == nil {
			t.Error("Stay returned nil")
		}
	})
}

// TestLeaveKeepsASuccessor: a process that leaves does not remove the one that
// has taken over its name.
func TestLeaveKeepsASuccessor(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, dir := bounded(t), "/t/"
		seen := members(t, c.Client(), dir)
		before, after := session(t, c, c.Client(), "before"), session(t, c, c.Client(), "after")
		must(t, recipe.Join(ctx, before, dir, "a", []byte("1")))
		must(t, recipe.Join(ctx, after, dir, "a", []byte("2")))
		receive(t, seen, "the name has passed", same("a=2"))
		must(t, recipe.Leave(ctx, before, dir, "a"))
		must(t, recipe.Join(ctx, after, dir, "b", nil))
		wantEqual(t, "after Leave", <-seen, "a=2 b=")
		must(t, recipe.Leave(ctx, after, dir, "a"))
		wantEqual(t, "after the successor's Leave", <-seen, "b=")
	})
}

// TestMeet: Meet returns only after all are there, and at once for latecomers.
func TestMeet(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, dir := bounded(t), "/t/"
		met := make(chan string, 3)
		meet := func(name string) {
			s := session(t, c, c.Client(), name)
			go func() {
				if err := recipe.Meet(ctx, s, dir, name, 3); err != nil {
					t.Error(err)
				}
				met <- name
			}()
		}
		meet("a")
		meet("b")
		c.KillMaster()
		select {
		case name := <-met:
			t.Errorf("%s did not wait for the third", name)
		default:
		}
		meet("c")
		for range 3 {
			receive(t, met, "all are there", func(string) bool { return true })
		}
		meet("late")
		receive(t, met, "a latecomer passes", same("late"))
		if err := recipe.Meet(ctx, session(t, c, c.Client(), "x"), dir, "all.there", 3); err == nil {
			t.Error("the reserved name all.there was accepted")
		}
	})
}

// TestMeetWithoutTheDead: a member that dies before the meeting is complete no
// longer counts, and its Meet returns the error.
func TestMeetWithoutTheDead(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, dir := bounded(t), "/t/"
		seen := members(t, c.Client(), dir)
		met := make(chan string, 3)
		meet := func(name string) *client.Session {
			s := sessionFor(t, c, c.Client(), name, longTTL)
			go func() {
				switch err := recipe.Meet(ctx, s, dir, name, 3); {
				case errors.Is(err, client.ErrSessionClosed):
					name = "closed"
				case err != nil:
					t.Error(err)
				}
				met <- name
			}()
			return s
		}
		meet("a")
		dying := meet("b")
		receive(t, seen, "two are there", same("a= b="))
		must(t, dying.Close(ctx))
		receive(t, met, "b gets the error", same("closed"))
		meet("c")
		receive(t, seen, "two are there again", same("a= c="))
		meet("d")
		all := map[string]bool{}
		for range 3 {
			all[receive(t, met, "all are there", func(string) bool { return true })] = true
		}
		if len(all) != 3 || !all["a"] || !all["c"] || !all["d"] {
			t.Errorf("%v have met", all)
		}
		var revisions []uint64
		for _, name := range []string{"d", "all.there"} {
			file, err := c.Client().Get(ctx, dir+name)
			must(t, err)
			revisions = append(revisions, file.Revision)
		}
		if revisions[0] > revisions[1] {
			t.Error("they met before the last one came: the dead one counted")
		}
	})
}

// TestBarrierAfterAGap: Await does not miss a barrier that was raised again while
// the client was cut off, for longer than the events are kept.
func TestBarrierAfterAGap(t *testing.T) {
	inCellOf(t, stouttest.Options{Events: 5}, func(t *testing.T, c *stouttest.Cell) {
		ctx, path := bounded(t), "/t"
		m, waits := c.Client(), c.Client()
		s := session(t, c, m, "guard")
		must(t, recipe.Raise(ctx, s, path))
		passed := make(chan error, 1)
		go func() { passed <- recipe.Await(ctx, waits, path) }()
		time.Sleep(time.Second)
		c.Cut(waits)
		must(t, recipe.Lower(ctx, s, path))
		must(t, recipe.Raise(ctx, s, path))
		for range 10 {
			must(t, second(m.Put(ctx, "/other", nil)))
		}
		c.Mend(waits)
		must(t, <-passed)
	})
}

// TestBarrier: Await returns when the barrier is lowered, or when the session
// that raised it ends, and not before.
func TestBarrier(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, path := bounded(t), "/t"
		m := c.Client()
		must(t, recipe.Await(ctx, m, path))
		s := session(t, c, m, "guard")
		passed := make(chan string, 1)
		await := func() {
			go func() {
				if err := recipe.Await(ctx, c.Client(), path); err != nil {
					t.Error(err)
				}
				passed <- "passed"
			}()
		}
		for range 2 {
			must(t, recipe.Raise(ctx, s, path, client.Ephemeral()))
		}
		await()
		c.KillMaster()
		select {
		case <-passed:
			t.Error("the barrier was passed while it was up")
		default:
		}
		must(t, recipe.Lower(ctx, s, path))
		receive(t, passed, "it is passed", same("passed"))
		must(t, recipe.Raise(ctx, s, path, client.Ephemeral()))
		await()
		c.Cut(m) // its owner's session expires
		receive(t, passed, "it is passed", same("passed"))
	})
}
