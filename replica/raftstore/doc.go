// Package raftstore puts right what hashicorp/raft does with its stores
// otherwise than Raft, or than a lease needs:
//
//   - a leader writes its own entries beside sending them, and counts its own disk
//     last (asynclog.go)
//   - storing a batch is a promise, which is noted; an entry that cannot be
//     read ends the replica; a follower knows where its snapshot ends
//     (logstore.go; hashicorp/raft #614, #697)
//   - a log has no gap, and goes on from its latest snapshot (logstore.go)
//   - it is known where the last configuration stands (confindex.go)
//   - a follower never goes back to an older snapshot (snapshots.go)
//   - a vote is stored atomically, and a later term is entered when all that
//     was written before is on the disk (votestore.go; hashicorp/raft #661)
package raftstore
