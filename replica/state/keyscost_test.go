package state_test

import (
	"crypto/sha256"
	"testing"

	"github.com/stoutlock/stout/replica/state"
)

// TestCertainChangesOfKeysAreNotTried: the master asks before each call whether
// the log is needed. The answer for a lock or an unlock needs no copy of the
// state.
func TestCertainChangesOfKeysAreNotTried(t *testing.T) {
	s, sum := opened(t, 1), sha256.Sum256(nil)
	s = applied(t, s, state.Command{Operation: &state.RaiseLevel{Level: 7}})
	key := func(verb state.KeyVerb, end state.KeyEnd) *state.ChangeKeys {
		return &state.ChangeKeys{Steps: []state.KeyStep{{Verb: verb, Path: "/k", Session: sessionID(0), Sum: sum[:], Ending: end}}}
	}
	for _, op := range []*state.ChangeKeys{key(state.KeyLock, state.KeyStays), key(state.KeyUnlock, 0), key(state.KeyLock, state.KeyStays)} {
		if _, changes := s.Would(op); !changes {
			t.Fatalf("%+v would change nothing", op)
		}
		if n := testing.AllocsPerRun(100, func() { s.Would(op) }); n > 3 {
			t.Errorf("verb %d: %v allocations", op.Steps[0].Verb, n)
		}
		s = applied(t, s, state.Command{Operation: op})
	}
}
