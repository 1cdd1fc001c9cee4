// Package raftstore corrects where hashicorp/raft uses its stores in a way that
// differs from Raft, or from what a lease needs:
//
//   - A leader writes its own entries while it sends them, and counts its own
//     disk last (asynclog.go).
//   - Storing a batch is a promise, which is recorded. An entry that cannot be
//     read ends the replica. A follower knows where its snapshot ends
//     (logstore.go; hashicorp/raft #614, #697).
//   - A log has no gap, and continues from its latest snapshot (logstore.go).
//   - A follower never removes an entry that it knows to be committed
//     (committed.go).
//   - A leader's log keeps the entries behind a snapshot that it sends (sending.go).
//   - The index of the last configuration is known (confindex.go).
//   - A follower never goes back to an older snapshot (snapshots.go).
//   - A vote is stored atomically. A replica enters a later term only when all
//     its earlier writes are on disk (votestore.go; hashicorp/raft #661).
package raftstore
