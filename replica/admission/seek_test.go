package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// seeker returns a Finder that asks the given function, and a counter of its
// calls.
func seeker(who Identity, answer func() (Info, error)) (s *Finder, asked *int) {
	asked = new(int)
	return &Finder{
		Self: Self{Identity: who, Names: []string{"r1", "r2"}},
		Ask: func(context.Context, string) (Info, error) {
			*asked++
			return answer()
		},
		Save: func(Identity) error { return nil },
		Note: func(Decision) {},
	}, asked
}

// A member starts without asking others, which may be down and not even refuse
// connections. A replaced directory must ask.
func TestMemberStartsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		who := Identity{Cell: "c", ID: "r1", Directory: "d1", CellID: "id"}
		s, asked := seeker(who, func() (Info, error) { return Info{}, errors.New("nobody is there") })
		if got, err := s.Run(t.Context()); err != nil || got.CellID != "id" {
			t.Errorf("%+v, %v", got, err)
		}
		if *asked > 0 || time.Since(began) > 0 {
			t.Errorf("it asked %d times, for %v", *asked, time.Since(began))
		}

		who.Replaced = 7
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, asked = seeker(who, func() (Info, error) {
			return Info{ID: "r2", CellID: "id", ConfigIndex: 7, Members: []string{"r1/d2"}}, nil
		})
		if _, err := s.Run(ctx); !errors.Is(err, context.DeadlineExceeded) || *asked == 0 {
			t.Errorf("one that was replaced asked %d times: %v", *asked, err)
		}
	})
}

// A removed replica follows the members while it waits: one that it saw removed may
// admit it if a member reported that it came again, also after a restart.
func TestRemovedReplicaLearnsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := Identity{ID: "r1", Directory: "a", Cell: "c", CellID: "id", Replaced: 3,
			Known: *new(Roster).Note(2, []string{"r1/a", "r2/b", "r3/d"}, nil).Note(3, []string{"r2/b"}, nil)}
		again := Info{ID: "r3", Directory: "d", CellID: "id", ConfigIndex: 9, Members: []string{"r1/a", "r3/d"}}
		answer := func() (Info, error) { return again, nil }
		waiting, _ := seeker(stored, func() (Info, error) { return answer() })
		waiting.Save = func(next Identity) error { stored = next; return nil }
		run := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := waiting.Run(ctx)
			return err
		}
		if err := run(); err == nil {
			t.Error("a replica that it saw removed admits it")
		}
		answer = func() (Info, error) {
			return Info{ID: "r2", Directory: "b", CellID: "id", ConfigIndex: 5, Members: []string{"r2/b", "r3/d"}}, nil
		}
		if err := run(); err == nil {
			t.Error("it is no member, and starts")
		}
		answer = func() (Info, error) { return again, nil }
		waiting.Self.Identity = stored // restarted
		if err := run(); err != nil || stored.Admitted != 9 {
			t.Errorf("it does not start: %v, %+v", err, stored)
		}
	})
}

// TestAskLeader: the first answer from a leader counts, without waiting for
// others.
func TestAskLeader(t *testing.T) {
	leads := func(after time.Duration, cell string, index uint64) func(context.Context) (Info, error) {
		return func(ctx context.Context) (Info, error) {
			time.Sleep(after)
			return Info{CellID: cell, Leads: true, Stored: Stored{Term: 3, Index: index}}, ctx.Err()
		}
	}
	hangs := func(ctx context.Context) (Info, error) { <-ctx.Done(); return Info{}, ctx.Err() }
	refuses := func(context.Context) (Info, error) { return Info{}, errors.New("nobody is there") }
	follows := func(context.Context) (Info, error) {
		return Info{CellID: "id", Stored: Stored{Term: 9, Index: 9}}, nil
	}
	for name, c := range map[string]struct {
		ask  map[string]func(context.Context) (Info, error)
		want uint64
		took time.Duration
	}{
		"one leads, and another hangs": {map[string]func(context.Context) (Info, error){"r2": hangs, "r3": leads(time.Millisecond, "id", 7)}, 7, time.Millisecond},
		"nobody is there":              {map[string]func(context.Context) (Info, error){"r2": refuses, "r3": refuses}, 0, 0},
		"nobody leads":                 {map[string]func(context.Context) (Info, error){"r2": follows, "r3": follows}, 0, 0},
		"nobody answers":               {map[string]func(context.Context) (Info, error){"r2": hangs, "r3": hangs}, 0, time.Second},
		"another cell's leader":        {map[string]func(context.Context) (Info, error){"r2": leads(0, "other", 7), "r3": follows}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				got := AskLeader(ctx, "r1", "id", []string{"r1", "r2", "r3"}, func(ctx context.Context, name string) (Info, error) { return c.ask[name](ctx) })
				if took := time.Since(began); got.Index != c.want || took != c.took {
					t.Errorf("%+v after %v, want %d after %v", got, took, c.want, c.took)
				}
			})
		})
	}
}
