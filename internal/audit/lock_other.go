//go:build !unix

package audit

import (
	"errors"
	"os"
)

// tryLock fails, because only stoutd writes the audit log, and stoutd is for
// Unix. Programs that link this package for their tests also run elsewhere.
func tryLock(*os.File) error { return errors.ErrUnsupported }
