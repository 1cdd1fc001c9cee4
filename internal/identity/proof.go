package identity

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/lockapi"
)

// Proof is the identity that a caller has proved.
type Proof struct {
	// Principal is a known principal, and never root.
	Principal string
	// Ends is when the proof becomes invalid.
	Ends time.Time
}

var errRoot = fmt.Errorf("it names %s, which only a token of the cell proves", lockapi.PrincipalRoot)

// unseen reports whether a character is not allowed in a name, because others
// could not distinguish the name from another. That is each character that
// stout and the log show as an escape, and U+FFFD, which replaces half a
// surrogate pair.
func unseen(r rune) bool { return r == unicode.ReplacementChar || safetext.Hidden(r) }

// proofOf returns the proof of a name with the prefix of its source. what describes
// the name in errors.
func proofOf(what, prefix, name string, ends time.Time) (*Proof, error) {
	switch principal := lockapi.PrefixUser + prefix + name; {
	case name == "":
		return nil, errors.New(what + " is empty")
	case len(name) <= lockapi.MaxPrincipalName && len(prefix)+len(name) > lockapi.MaxPrincipalName:
		return nil, fmt.Errorf("%s, %q, is too long: with the prefix %q it has %d bytes, and the name of a principal has at most %d", what, lockapi.Clip(name), prefix, len(prefix)+len(name), lockapi.MaxPrincipalName)
	case !lockapi.IsUser(principal):
		return nil, fmt.Errorf("%s, %q, is not a valid principal name: it may have at most %d bytes of UTF-8 and no control characters", what, lockapi.Clip(name), lockapi.MaxPrincipalName)
	case strings.ContainsFunc(name, unseen):
		return nil, fmt.Errorf("%s, %q, is not a valid principal name: it has invisible characters, or U+FFFD, which replaces invalid text", what, lockapi.Clip(name))
	case strings.TrimSpace(name) != name:
		return nil, fmt.Errorf("%s, %q, is not a valid principal name: it begins or ends with a blank", what, lockapi.Clip(name))
	case principal == lockapi.PrincipalRoot:
		return nil, errRoot
	default:
		return &Proof{Principal: principal, Ends: ends}, nil
	}
}
