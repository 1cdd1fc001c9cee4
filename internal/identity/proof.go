package identity

import (
	"errors"
	"fmt"
	"time"

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

// principalOf is that of a name, which what calls the name.
func principalOf(what, name string) (string, error) {
	switch principal := lockapi.PrefixUser + name; {
	case name == "":
		return "", errors.New(what + " is empty")
	case !lockapi.IsUser(principal):
		return "", fmt.Errorf("%s, %q, is no name of a principal: that has at most %d bytes of UTF-8 and no control characters", what, lockapi.Clip(name), lockapi.MaxPrincipalName)
	case principal == lockapi.PrincipalRoot:
		return "", errRoot
	default:
		return principal, nil
	}
}
