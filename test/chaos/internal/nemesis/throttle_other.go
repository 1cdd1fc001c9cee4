//go:build !linux

package nemesis

import "errors"

// throttle fails: only Linux has cgroups.
func throttle(int, string, int) (release func() error, err error) {
	return func() error { return nil }, errors.ErrUnsupported
}
