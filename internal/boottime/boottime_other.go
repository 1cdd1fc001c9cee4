//go:build !linux

package boottime

import "time"

var start = time.Now()

// Now is the time since the program started on Go's monotonic clock. Whether
// that clock runs while the machine sleeps depends on the system.
func Now() time.Duration { return time.Since(start) }
