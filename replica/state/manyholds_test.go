package state_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/test/model"
)

// TestEndOfASessionWithManyHolds: a session's end frees and hands on the locks of all
// its paths, as in the model, on however many paths it holds and waits.
func TestEndOfASessionWithManyHolds(t *testing.T) {
	for _, end := range []state.Operation{&state.CloseSession{Session: "busy"}, &state.ExpireSession{Session: "busy"}} {
		for _, paths := range []int{127, 128, 129, 1000} {
			t.Run(fmt.Sprint(state.Name(end), " ", paths), func(t *testing.T) {
				s, m := state.New(), model.New()
				apply := func(term uint64, b state.Batch) state.Outcome {
					t.Helper()
					next, got := s.Apply(s.Index+1, term, b)
					if want := m.Apply(s.Index+1, term, b); !reflect.DeepEqual(got, want) {
						t.Fatalf("got:\n%s\nwant:\n%s", outcomeText(got), outcomeText(want))
					}
					s = next
					if err := s.Check(); err != nil {
						t.Fatal(err)
					}
					return got
				}
				apply(1, state.Batch{LeaseMS: 1, Commands: []state.Command{{Operation: &state.OpenOffice{Master: "r1", Term: 1}}}})
				apply(1, state.Batch{Epoch: 1, LeaseMS: 1, Commands: manyHolds(paths)})
				out := apply(1, state.Batch{Epoch: 1, LeaseMS: 1, Commands: commands(end)})
				granted := 0
				for _, c := range out.Changes {
					if _, ok := c.(state.Granted); ok {
						granted++
					}
				}
				delayed := 0
				if _, expires := end.(*state.ExpireSession); expires {
					delayed = (paths + 2) / 3
				}
				if granted != paths-delayed || s.HoldCount() != 2*paths-delayed || s.WaitCount() != delayed {
					t.Errorf("%d are granted, %d held, %d wait", granted, s.HoldCount(), s.WaitCount())
				}
			})
		}
	}
}

// manyHolds returns commands after which one session holds a lock at each path, every
// third with a lock-delay. A second session waits for each of these locks, and holds
// another lock at each path, for which the first session waits.
func manyHolds(paths int) []state.Command {
	all := []state.Command{
		{Operation: &state.OpenSession{Session: "busy", TTLMS: 1000}},
		{Operation: &state.OpenSession{Session: "next", TTLMS: 1000}},
	}
	for i := range paths {
		held, wanted := fmt.Sprintf("/held/%d", i), fmt.Sprintf("/wanted/%d", i)
		delay := int64(0)
		if i%3 == 0 {
			delay = 5000
		}
		all = append(all,
			state.Command{Operation: &state.Acquire{Session: "busy", Path: held, Mode: state.Exclusive, DelayMS: delay}},
			state.Command{Operation: &state.Acquire{Session: "next", Path: held, Mode: state.Exclusive, Wait: state.Persistent}},
			state.Command{Operation: &state.Acquire{Session: "next", Path: wanted, Mode: state.Exclusive}},
			state.Command{Operation: &state.Acquire{Session: "busy", Path: wanted, Mode: state.Exclusive, Wait: state.Persistent}},
		)
	}
	return all
}
