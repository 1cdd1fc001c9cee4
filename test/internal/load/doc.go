// Package load makes load, measures it, and shows the results: as a table for
// people, and as JSON for programs.
//
// In a closed loop each worker starts its next operation when its last one has
// ended, like n busy clients. This finds the throughput, but its latencies
// flatter a server that stalls, because no operation starts during the stall.
// In an open loop operations are due at a fixed rate, even if earlier ones have
// not ended, like the calls of many independent clients. A latency counts from
// the moment when the operation was due, so it includes the wait for a worker.
// This corrects the effect that Gil Tene calls coordinated omission.
package load
