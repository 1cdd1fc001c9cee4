package state_test

import (
	"crypto/sha256"
	"fmt"
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

// TestCertainDeletionsAreNotTried: the deletion of a directory is not carried out on a
// copy of the state, neither before its turn nor to find that the log is needed.
func TestCertainDeletionsAreNotTried(t *testing.T) {
	s, sum := opened(t, 1), sha256.Sum256(nil)
	s = applied(t, s, state.Command{Operation: &state.RaiseLevel{Level: 7}})
	const files = 1000
	for i := range files {
		s = applied(t, s, state.Command{Operation: &state.Transaction{Then: []state.Step{&state.Write{Path: fmt.Sprint("/d/", i), Sum: sum[:]}}}})
	}
	below := []state.Step{&state.DeleteBelow{Prefix: "/d/"}}
	for _, op := range []state.Operation{
		&state.Transaction{Then: below},
		&state.Transaction{Then: below, Session: sessionID(0), Key: "k"},
		&state.ChangeKeys{Steps: []state.KeyStep{{Verb: state.KeyDeleteTree, Path: "/d/"}}},
	} {
		if _, changes := s.Would(op); !changes {
			t.Fatalf("%+v would change nothing", op)
		}
		if n := testing.AllocsPerRun(10, func() { s.Would(op) }); n > files/10 {
			t.Errorf("%+v: %v allocations", op, n)
		}
	}
}
