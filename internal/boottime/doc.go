// Package boottime reads a clock that never steps and, on Linux, goes on while
// the machine sleeps. Leases are measured on it: Go's own monotonic clock
// stands still during a suspend, and a lease counted on it would seem to last.
//
// Instants are durations since an origin that only this machine knows (and,
// outside Linux, only this process). They may be compared and subtracted
// within one process, and mean nothing elsewhere.
package boottime
