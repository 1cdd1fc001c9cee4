// Package replica is one member of a cell: hashicorp/raft, its stores and
// transport, and the adapter to the pure state machine in replica/state. It
// proposes batches, reports when the replica leads and in which term, and keeps
// the replica's promises (package lease). Package master, not this one, decides
// whether a leader may act as master.
//
// Corrections of the library have packages of their own: raftstore for what it
// stores, rafttransport for what it sends, datadir for what is on the disk.
// DESIGN.md shows how they fit together. The rest is here:
//
//   - A silent leader is suspected in time (election.go).
//   - The library can forget to end a transfer of leadership; then the process
//     ends (replica.go; hashicorp/raft #696).
//   - A founding that a crash interrupted is repeated (founding.go).
//   - Checksums of the state go through the log; a replica that differs ends
//     (checksum.go).
//   - A directory that has forgotten what it acknowledged is refused
//     (forgotten.go).
//   - Writing and summing a large state pauses at intervals
//     (internal/throttle).
//
// A replica is started on any stores and peers (Start), or on a data directory
// and a port (Prepare, or Open).
//
// hashicorp/raft is pinned at v1.7.3: v1.8.0 does not build with raft-boltdb/v2
// v2.3.1, which imports a package that go-metrics has since removed.
package replica
