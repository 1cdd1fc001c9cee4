package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// seeker is one that asks the given function, and how often it did.
func seeker(who Identity, answer func() (Card, error)) (s *Seeker, asked *int) {
	asked = new(int)
	return &Seeker{
		Self: Self{Identity: who, Names: []string{"r1", "r2"}},
		Ask: func(context.Context, string) (Card, error) {
			*asked++
			return answer()
		},
		Save: func(Identity) error { return nil },
		Note: func(Decision) {},
	}, asked
}

// A member starts without asking anybody: others may be down, and not even
// refuse. One that was replaced has to ask.
func TestMemberStartsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		who := Identity{Cell: "c", ID: "r1", Directory: "d1", CellID: "id"}
		s, asked := seeker(who, func() (Card, error) { return Card{}, errors.New("nobody is there") })
		if got, err := s.Run(t.Context()); err != nil || got.CellID != "id" {
			t.Errorf("%+v, %v", got, err)
		}
		if *asked > 0 || time.Since(began) > 0 {
			t.Errorf("it asked %d times, for %v", *asked, time.Since(began))
		}

		who.Replaced = 7
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, asked = seeker(who, func() (Card, error) {
			return Card{ID: "r2", CellID: "id", ConfigIndex: 7, Members: []string{"r1/d2"}}, nil
		})
		if _, err := s.Run(ctx); !errors.Is(err, context.DeadlineExceeded) || *asked == 0 {
			t.Errorf("one that was replaced asked %d times: %v", *asked, err)
		}
	})
}
