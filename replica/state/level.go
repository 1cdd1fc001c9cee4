package state

import "fmt"

// Levels let replicas of one cell run different releases. A release that brings
// a new operation, or writes something new into a snapshot, knows one more
// level than the release before. The state holds the cell's level. It begins at
// 1 and RaiseLevel raises it: the master proposes that once every member has
// reported that its release knows the next level. Until then nothing of that
// level is proposed, so no replica reads what it cannot understand. Afterwards
// a release that does not know the level refuses to start (ErrVersion).

// Level is the highest level that this release knows.
const Level = 7

// levelRights is the first level at which sequential names are checked against
// the rules when they are made, a transaction's results are bounded, and one
// operation removes the rules below a path.
const levelRights = 4

// ChecksNames reports whether a Write may set CheckedFor, for a check of that
// principal's right to write the sequential name.
func (s *State) ChecksNames() bool { return s.Level >= levelRights }

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

// LevelRaised reports the cell's new level.
type LevelRaised struct{ Level uint64 }

// Knows reports whether the cell's level permits proposing an operation.
func (s *State) Knows(op Operation) bool {
	switch op := op.(type) {
	case *Acquire:
		if len(op.With) > 0 {
			return s.Level >= levelQuotas
		}
	case *CloseSession:
		if op.Delays {
			return s.Level >= levelKeys
		}
	}
	return operations[op.kind()].level <= s.Level
}
