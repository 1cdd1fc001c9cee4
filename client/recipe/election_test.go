package recipe_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/recipe"
	"github.com/stoutlock/stout/client/stouttest"
)

// observe sends each leader on a channel.
func observe(t *testing.T, c *client.Client, path string) <-chan recipe.Leader {
	leaders := make(chan recipe.Leader, 100)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for leader, err := range recipe.Observe(ctx, c, path) {
			if err == nil {
				leaders <- leader
			}
		}
	}()
	return leaders
}

func named(name string) func(recipe.Leader) bool {
	return func(l recipe.Leader) bool { return string(l.Value) == name }
}

// TestLateLeaderWritesNothing: a leader that was cut off and returns neither
// overwrites nor deletes its successor's value.
func TestLateLeaderWritesNothing(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, path := bounded(t), "/t"
		a, b := c.Client(), c.Client()
		leaders := observe(t, c.Client(), path)
		one, err := recipe.Campaign(ctx, session(t, c, a, "a"), path, []byte("a"))
		must(t, err)
		first := receive(t, leaders, "a leads", named("a"))
		campaign := make(chan *recipe.Leadership, 1)
		second := sessionFor(t, c, b, "b", longTTL)
		go func() {
			l, err := recipe.Campaign(ctx, second, path, []byte("b"))
			if err != nil {
				t.Error(err)
			}
			campaign <- l
		}()
		c.KillMaster()
		if now, err := recipe.Now(ctx, b, path); err != nil || string(now.Value) != "a" {
			t.Fatalf("after a change of master %q leads, %v", now.Value, err)
		}

		c.Cut(a)
		two := <-campaign
		if one.Err() == nil {
			t.Error("two lead at a time")
		}
		later := receive(t, leaders, "b leads", named("b"))
		if later.Revision <= first.Revision {
			t.Errorf("b leads at revision %d, after a at %d", later.Revision, first.Revision)
		}
		c.Mend(a)
		if err := one.Proclaim(ctx, []byte("a again")); !errors.Is(err, client.ErrNotHeld) && !errors.Is(err, client.ErrSessionExpired) {
			t.Errorf("a late leader wrote: %v", err)
		}
		if err := one.Resign(ctx); err == nil {
			t.Error("a late leader resigned")
		}
		if now, err := recipe.Now(ctx, a, path); err != nil || string(now.Value) != "b" {
			t.Errorf("%q leads, %v", now.Value, err)
		}

		c.IsolateMaster()
		must(t, two.Proclaim(ctx, []byte("b, elsewhere")))
		receive(t, leaders, "b publishes its new address", named("b, elsewhere"))
		must(t, two.Resign(ctx))
		receive(t, leaders, "no leader", func(l recipe.Leader) bool { return l.Revision == 0 })
	})
}

// TestLeadAgain: a leader that loses the lock campaigns again in the same
// process. It opens a new session if the old one has ended.
func TestLeadAgain(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, path := bounded(t), "/t"
		m := c.Client()
		leaders := observe(t, c.Client(), path)
		started, stopped := make(chan *recipe.Leadership, 10), make(chan bool, 10)
		leading, resign := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			ended <- recipe.Lead(leading, m, path, []byte("me"), recipe.Callbacks{
				Started: func(ctx context.Context, l *recipe.Leadership) error {
					started <- l
					<-ctx.Done()
					return ctx.Err()
				},
				Stopped: func() { stopped <- true },
			}, client.TTL(ttl))
		}()
		always := func(*recipe.Leadership) bool { return true }
		first := receive(t, started, "it leads", always)
		receive(t, leaders, "it publishes its value", named("me"))

		// An operator releases the lock; the session lives.
		lock, err := m.ReadLock(ctx, path)
		if err != nil || len(lock.Holders) != 1 {
			t.Fatalf("holders %v, %v", lock.Holders, err)
		}
		session := lock.Holders[0].Session
		if done, err := admin.New(m).Release(ctx, path, session, first.Held().Handle(), first.Token()); err != nil || !done {
			t.Fatalf("released: %v, %v", done, err)
		}
		<-stopped
		second := receive(t, started, "it leads again", always)
		if second.Token() <= first.Token() {
			t.Errorf("token %d after %d", second.Token(), first.Token())
		}
		// An operator ends the session.
		must(t, admin.New(m).KillSession(ctx, session))
		<-stopped
		third := receive(t, started, "it leads with a new session", always)
		if third.Token() <= second.Token() {
			t.Errorf("token %d after %d", third.Token(), second.Token())
		}
		resign()
		<-stopped
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Lead returned %v", err)
		}
		receive(t, leaders, "no leader", func(l recipe.Leader) bool { return l.Revision == 0 })
	})
}

// TestForcedOutLeaderWritesNothing: after an operator released its lock, a
// leader writes no more, though its session lives.
func TestForcedOutLeaderWritesNothing(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, path := bounded(t), "/t"
		m := c.Client()
		l, err := recipe.Campaign(ctx, sessionFor(t, c, m, "a", longTTL), path, []byte("a"))
		must(t, err)
		c.ReleaseByForce(path)
		if err := l.Proclaim(ctx, []byte("late")); !errors.Is(err, client.ErrNotHeld) && !errors.Is(err, client.ErrLockLost) {
			t.Errorf("a late leader wrote: %v", err)
		}
		if now, err := recipe.Now(ctx, m, path); err != nil || string(now.Value) == "late" {
			t.Errorf("%q leads, %v", now.Value, err)
		}
	})
}

// TestLeaderIsCutOff: a leader's context ends before another can lead.
func TestLeaderIsCutOff(t *testing.T) {
	inCell(t, func(t *testing.T, c *stouttest.Cell) {
		ctx, path := bounded(t), "/t"
		a, b := c.Client(), c.Client()
		leading, stop := context.WithCancel(ctx)
		started, stopped, ended := make(chan bool, 1), make(chan bool, 1), make(chan bool)
		go func() {
			defer close(ended)
			_ = recipe.Lead(leading, a, path, nil, recipe.Callbacks{Started: func(ctx context.Context, _ *recipe.Leadership) error {
				started <- true
				<-ctx.Done()
				stopped <- true
				return ctx.Err()
			}}, client.TTL(ttl))
		}()
		<-started
		c.Cut(a)
		must(t, second(recipe.Campaign(ctx, session(t, c, b, "b"), path, nil)))
		select {
		case <-stopped:
		default:
			t.Error("b leads while a does")
		}
		c.Mend(a)
		stop()
		<-ended
	})
}
