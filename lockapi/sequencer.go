package lockapi

import (
	"strconv"
	"strings"
)

// MaxToken is the highest fencing token: the largest integer that every JSON
// reader holds exactly.
const MaxToken = 1<<53 - 1

// Mode is how a lock is held.
type Mode string

// The modes. A shared lock with a limit is a semaphore.
const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "shared"
)

// Valid reports whether m is one of the modes.
func (m Mode) Valid() bool { return m == Exclusive || m == Shared }

// Sequencer describes one grant of a lock: Chubby's sequencer (section 2.4 of
// the paper). A holder sends it with its requests. The receiver checks with the
// cell whether it is still valid, or compares tokens.
type Sequencer struct {
	Mode  Mode
	Token uint64
	Path  string
}

// String returns the wire form, mode:token:path.
func (s Sequencer) String() string {
	return string(s.Mode) + ":" + strconv.FormatUint(s.Token, 10) + ":" + s.Path
}

// ParseSequencer reads the wire form. It accepts exactly the output of String
// for a known mode, a token in 1..MaxToken and a valid path.
func ParseSequencer(value string) (Sequencer, error) {
	mode, rest, ok1 := strings.Cut(value, ":")
	number, path, ok2 := strings.Cut(rest, ":")
	if !ok1 || !ok2 {
		return Sequencer{}, Invalid("value", "sequencer %q is not of the form mode:token:path", Clip(value))
	}
	if !Mode(mode).Valid() {
		return Sequencer{}, Invalid("value", "sequencer %q has mode %q; it must be %q or %q", Clip(value), Clip(mode), Exclusive, Shared)
	}
	token, err := strconv.ParseUint(number, 10, 64)
	if err != nil || token == 0 || token > MaxToken || strconv.FormatUint(token, 10) != number {
		return Sequencer{}, Invalid("value", "sequencer %q has token %q; it must be a whole number from 1 to %d", Clip(value), Clip(number), uint64(MaxToken))
	}
	if err := ValidatePath(path); err != nil {
		return Sequencer{}, Invalid("value", "sequencer %q: %s", Clip(value), err.(*Error).Detail)
	}
	return Sequencer{Mode: Mode(mode), Token: token, Path: path}, nil
}
