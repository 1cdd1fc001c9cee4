// Package replica is one member of a cell: hashicorp/raft, its stores and
// transport, and the adapter to the pure state machine in replica/state. It
// proposes batches, tells when the replica leads and in which term, and keeps
// the replica's promises (package lease). Whether a leader may act as master is
// not decided here but in package master.
//
// What stands between the library and its defaults has packages of its own:
// raftstore for what it stores, rafttransport for what it sends, datadir for
// what is on the disk. DESIGN.md shows how they stand. Here is what is left:
//
//   - a silent leader is suspected in time (election.go)
//   - a transfer of leadership that the library forgets to end, ends the process
//     (replica.go; hashicorp/raft #696)
//   - a founding that a crash has cut in two is made again (founding.go)
//   - checksums of the state go through the log; a replica that differs ends
//     (checksum.go)
//   - a directory that has forgotten what it had acknowledged is refused
//     (forgotten.go)
//   - a large state is written and summed with rests (internal/throttle)
//
// A replica is started on stores and peers (Start), wherever these come from,
// or on a data directory and a port (Prepare, or Open).
//
// hashicorp/raft is pinned at v1.7.3: v1.8.0 does not build with raft-boltdb/v2
// v2.3.1, which imports a package that go-metrics has lost since.
package replica
