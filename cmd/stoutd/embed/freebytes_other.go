//go:build !linux && !darwin && !freebsd

package embed

import "errors"

// freeBytes is not known.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
