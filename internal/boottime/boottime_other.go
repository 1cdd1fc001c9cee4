//go:build !linux

package boottime

import "time"

var start = time.Now()

// Now returns the time since the program started, on Go's monotonic clock. The
// system determines whether that clock runs while the machine sleeps.
func Now() time.Duration { return time.Since(start) }
