// Package rafttransport puts right what hashicorp/raft does with its messages
// otherwise than Raft, or than a lease needs:
//
//   - heartbeats take the way of every other message (transport.go;
//     hashicorp/raft #695)
//   - no message has a follower commit more than it brings, or than its leader
//     has applied and may tell (Options.Told); that it tells soon (notices.go);
//     none leaves a replica that does not lead any more; a leader
//     whose disk hangs falls silent (transport.go)
//   - a follower keeps a log that has the end of a snapshot, and discards any
//     other (install.go); entries that only its snapshot has are left out
//     (compacted.go)
//   - a follower that has forgotten what it had acknowledged is sent nothing; it
//     is known which entries a majority has without the leader (acknowledged.go)
//   - candidates are judged by their logs alone, and campaign only with a vote
//     (voting.go)
//   - a pipeline ends with its first failure (pipeline.go; hashicorp/raft #612)
//   - a follower that comes back is sent what it lacks at once (retry.go)
//   - a message is for one server, whoever has its address, and is bounded
//     before it is decoded (network.go)
package rafttransport
