// Package load makes load, measures what comes of it, and shows that: as a table for
// people, and as JSON for programs.
//
// In a closed loop each worker does its next operation when its last one has
// ended, as n busy clients do: that finds the throughput, but its latencies
// flatter a server that stalls, because nobody asks during the stall. In an
// open loop operations are due at a fixed rate, whether or not the earlier ones
// have ended, as the calls of many independent clients are; a latency counts
// from the moment at which the operation was due. So an operation that had to
// wait for a worker is charged the wait: the correction for what Gil Tene calls
// coordinated omission.
package load
