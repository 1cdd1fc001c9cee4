// Package replica is one member of a cell: hashicorp/raft, its stores and
// transport, and the adapter to the pure state machine in replica/state. It
// proposes batches, tells when the replica leads and in which term, and keeps
// the replica's promises (package lease). Whether a leader may act as master is
// not decided here but in package master.
//
// What stands between the library and its defaults, each with its reason beside
// the code:
//
//   - heartbeats take the same way as every other message (transport.go; hashicorp/raft #695)
//   - a leader whose disk hangs falls silent (transport.go)
//   - a vote is stored atomically (stores.go; hashicorp/raft #661)
//   - a store that fails ends the process (stores.go; hashicorp/raft #614)
//   - the log and the votes, which raft-boltdb keeps, have checksums and a record
//     of what has to be there, and are read from end to end before the replica
//     starts (logfile.go, logstore.go, logrecord.go, logcheck.go, boltcheck.go)
//   - so have the snapshots, with their meta data; where one is damaged, the log
//     has to reach back to the one before it (snapshots.go)
//   - a write-ahead log may take entries before raft-boltdb does (wal.go, walblocks.go)
//   - checksums of the state go through the log; a replica that differs ends (checksum.go)
//
// The rule about disks is: a replica recovers, or refuses to start and says what
// to do; it never serves, nor votes, as if it had not acknowledged what it had.
//
// Parts is where another home of the log and the votes is put in.
//
// hashicorp/raft is pinned at v1.7.3: v1.8.0 does not build with
// raft-boltdb/v2 v2.3.1, which imports a package that go-metrics has lost since.
package replica
