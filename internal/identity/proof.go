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

// Proof is who somebody has proved to be.
type Proof struct {
	// Principal is a known one, and not the root.
	Principal string
	// Ends is when it counts no more.
	Ends time.Time
}

var errRoot = fmt.Errorf("it names %s, which is proved by a token of the cell only", lockapi.PrincipalRoot)

// unseen reports whether a character has no place in a name that others are to tell
// from another. That is each character that stout and the log show as an escape, and
// U+FFFD, into which a half of a surrogate pair turns.
func unseen(r rune) bool { return r == unicode.ReplacementChar || safetext.Hidden(r) }

// principalOf is that of a name behind the prefix of its source; what calls the name.
func principalOf(what, prefix, name string) (string, error) {
	switch principal := lockapi.PrefixUser + prefix + name; {
	case name == "":
		return "", errors.New(what + " is empty")
	case len(name) <= lockapi.MaxPrincipalName && len(prefix)+len(name) > lockapi.MaxPrincipalName:
		return "", fmt.Errorf("%s, %q, is too long: with the prefix %q it has %d bytes, and the name of a principal has at most %d", what, lockapi.Clip(name), prefix, len(prefix)+len(name), lockapi.MaxPrincipalName)
	case !lockapi.IsUser(principal):
		return "", fmt.Errorf("%s, %q, is no name of a principal: that has at most %d bytes of UTF-8 and no control characters", what, lockapi.Clip(name), lockapi.MaxPrincipalName)
	case strings.ContainsFunc(name, unseen):
		return "", fmt.Errorf("%s, %q, is no name of a principal: it has characters that are not seen, or U+FFFD, which stands for what was no text", what, lockapi.Clip(name))
	case strings.TrimSpace(name) != name:
		return "", fmt.Errorf("%s, %q, is no name of a principal: it begins or ends with a blank", what, lockapi.Clip(name))
	case principal == lockapi.PrincipalRoot:
		return "", errRoot
	default:
		return principal, nil
	}
}
