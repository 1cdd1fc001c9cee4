// Package boottime reads a clock that never steps and, on Linux, continues
// while the machine sleeps. Leases are measured on it. Go's own monotonic clock
// stops during a suspend, so a lease measured on it would seem to last.
//
// Instants are durations since an origin that only this machine knows (and,
// outside Linux, only this process). They may be compared and subtracted within
// one process, and have no meaning elsewhere.
package boottime
