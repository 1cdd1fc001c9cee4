// Package rafttransport corrects where hashicorp/raft handles its messages in a
// way that differs from Raft, or from what a lease needs:
//
//   - Heartbeats are handled like every other message (transport.go;
//     hashicorp/raft #695).
//   - No message makes a follower commit more than it brings, or than its
//     leader has applied and may publish (Options.CommitLimit). Followers learn
//     soon what is committed (notices.go).
//   - A replica that no longer leads sends no messages to followers. A leader
//     with a hanging disk falls silent (transport.go).
//   - A follower keeps a log that has the end of a snapshot, and discards any
//     other (install.go). Entries that only its snapshot has are left out
//     (compacted.go).
//   - A follower that has forgotten what it acknowledged is sent no messages.
//     The leader knows which entries a majority has without it
//     (acknowledged.go).
//   - Only a candidate's log decides whether it gets a vote, and only a voter
//     campaigns (voting.go).
//   - A pipeline ends with its first failure (pipeline.go; hashicorp/raft
//     #612).
//   - A follower that comes back is sent what it lacks at once (retry.go).
//   - A message is for one server, even if another has its address, and is
//     bounded before it is decoded (network.go).
package rafttransport
