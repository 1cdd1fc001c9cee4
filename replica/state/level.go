package state

import "fmt"

// Levels let the replicas of a cell run releases that differ. A release that
// brings a new operation, or writes something new into a snapshot, knows a
// level more than the one before. The cell's level is in the state. It begins
// at 1 and is raised by RaiseLevel, which the master proposes when every member
// has told that its release knows the next one. Until then nothing of that
// level is proposed, and nobody meets what they can't read; afterwards a
// release that does not know the level does not start (ErrVersion).

// Level is the highest level that this release knows.
const Level = 5

// levelRights is the level from which on the names of sequential files are judged
// where they are made, a transaction's results are bounded, and the rules below a path
// go by one operation.
const levelRights = 4

// JudgesNames reports whether a Write may name the principal that its sequential name
// is judged for.
func (s *State) JudgesNames() bool { return s.Level >= levelRights }

// RaiseLevel raises the cell's level.
type RaiseLevel struct {
	Level uint64 `cbor:"1,keyasint"`
}

func (op *RaiseLevel) unknown() string {
	if op.Level > Level {
		return fmt.Sprintf("level %d; this release knows levels up to %d", op.Level, Level)
	}
	return ""
}

func (op *RaiseLevel) wellFormed() bool { return true }
func (op *RaiseLevel) size() int        { return 16 }

func (op *RaiseLevel) would(s *State) (Result, bool) {
	if op.Level <= s.Level {
		return Nothing, false
	}
	return Done, true
}

func (op *RaiseLevel) do(e *editor, r Result) Result {
	e.Level = op.Level
	e.record(LevelRaised{Level: op.Level})
	return r
}

// LevelRaised says that the cell has reached a level.
type LevelRaised struct{ Level uint64 }

// Knows reports whether the cell has reached the level at which an operation
// may be proposed.
func (s *State) Knows(op Operation) bool { return operations[op.kind()].level <= s.Level }
