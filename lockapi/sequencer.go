package lockapi

import (
	"strconv"
	"strings"
)

// MaxToken is the highest fencing token: the largest integer that every JSON
// reader holds exactly.
const MaxToken = 1<<53 - 1

// Mode says how a lock is held.
type Mode string

// The modes. A shared lock with a limit is a semaphore.
const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "shared"
)

// Valid reports whether m is one of the modes.
func (m Mode) Valid() bool { return m == Exclusive || m == Shared }

// Sequencer describes one grant of a lock: Chubby's sequencer (section 2.4 of
// the paper). A holder passes it along with its requests; whoever receives it
// asks the cell whether it is valid still, or compares tokens.
type Sequencer struct {
	Mode  Mode
	Token uint64
	Path  string
}

// String is the wire form, mode:token:path.
func (s Sequencer) String() string {
	return string(s.Mode) + ":" + strconv.FormatUint(s.Token, 10) + ":" + s.Path
}

// ParseSequencer reads the wire form. It accepts exactly what String writes of
// a sequencer with a known mode, a token in 1..MaxToken and a valid path.
func ParseSequencer(value string) (Sequencer, error) {
	mode, rest, ok1 := strings.Cut(value, ":")
	number, path, ok2 := strings.Cut(rest, ":")
	if !ok1 || !ok2 {
		return Sequencer{}, Invalid("value", "sequencer %q is not of the form mode:token:path", Clip(value))
	}
	if !Mode(mode).Valid() {
		return Sequencer{}, Invalid("value", "sequencer %q has mode %q; it is %q or %q", Clip(value), Clip(mode), Exclusive, Shared)
	}
	token, err := strconv.ParseUint(number, 10, 64)
	if err != nil || token == 0 || token > MaxToken || strconv.FormatUint(token, 10) != number {
		return Sequencer{}, Invalid("value", "sequencer %q has token %q; it is a whole number from 1 to %d", Clip(value), Clip(number), uint64(MaxToken))
	}
	if err := ValidatePath(path); err != nil {
		return Sequencer{}, Invalid("value", "sequencer %q: %s", Clip(value), err.(*Error).Detail)
	}
	return Sequencer{Mode: Mode(mode), Token: token, Path: path}, nil
}
