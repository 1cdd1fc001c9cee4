//go:build !unix

package audit

import (
	"errors"
	"os"
)

// tryLock fails: stoutd, which writes the audit log, is for Unix. Programs that
// link this package for their tests run elsewhere too.
func tryLock(*os.File) error { return errors.ErrUnsupported }
