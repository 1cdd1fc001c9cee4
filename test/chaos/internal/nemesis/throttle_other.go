//go:build !linux

package nemesis

import "errors"

// throttle fails: cgroups are Linux's.
func throttle(int, string, int) (release func() error, err error) {
	return func() error { return nil }, errors.ErrUnsupported
}
