//go:build !linux && !darwin && !freebsd

package embed

import "errors"

// freeBytes is not supported on these systems.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
