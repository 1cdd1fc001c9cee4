// Package replica is one member of a cell: hashicorp/raft, its stores and
// transport, and the adapter to the pure state machine in replica/state. It
// proposes batches, tells when the replica leads and in which term, and keeps
// the replica's promises (package lease). Whether a leader may act as master is
// not decided here but in package master.
//
// What stands between the library and its defaults, each with its reason beside
// the code:
//
//   - heartbeats take the same way as every other message (transport.go;
//     hashicorp/raft #695)
//   - a leader whose disk hangs falls silent (transport.go)
//   - a vote is stored atomically (stores.go; hashicorp/raft #661)
//   - a store that fails ends the process (stores.go; hashicorp/raft #614)
//   - what is on the disk is checked from end to end before the replica starts,
//     and a write-ahead log may stand before raft-boltdb (package datadir)
//   - checksums of the state go through the log; a replica that differs ends
//     (checksum.go)
//
// A replica is started on stores and peers (Start), wherever these come from,
// or on a data directory and a port (Prepare, or Open).
//
// hashicorp/raft is pinned at v1.7.3: v1.8.0 does not build with raft-boltdb/v2
// v2.3.1, which imports a package that go-metrics has lost since.
package replica
