package fence

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// ErrStale matches every *StaleError: a later holder of the lock has written.
var ErrStale = errors.New("fence: stale token")

// StaleError reports a token below the highest that the guard has seen.
type StaleError struct {
	Resource string
	Token    uint64 // of the refused write
	Highest  uint64 // seen for the resource
}

// Error has the resource and both tokens.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: stale token %d: a later holder has used %s with token %d; stop the work and take the lock again", e.Token, lockapi.Clip(e.Resource), e.Highest)
}

// Is reports whether target is ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// maxResource bounds the name of a resource, in bytes, as MySQL bounds a key.
const maxResource = lockapi.MaxPathBytes

// validate returns an error if the resource or the token cannot be valid.
func validate(resource string, token uint64) error {
	switch {
	case resource == "" || len(resource) > maxResource || strings.ContainsRune(resource, 0):
		return lockapi.Invalid("resource", "the name %q of a resource is empty, has a zero byte, or is longer than %d bytes", lockapi.Clip(resource), maxResource)
	case token == 0 || token > lockapi.MaxToken:
		return lockapi.Invalid("token", "token %d is not within 1..%d: send Held.Token", token, uint64(lockapi.MaxToken))
	}
	return nil
}
