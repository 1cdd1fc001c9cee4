// Package boltlog keeps Raft's log and votes in a file of raft-boltdb, which
// may have a write-ahead log before it (package wal), and finds damage.
//
// raft-boltdb has no checksums, and a file that misses its last entries, or a
// vote, looks whole to it. So there is more in it than Raft's entries:
//
//   - Each entry carries a CRC-32C in its extensions (seal.go).
//   - One more entry, under an index that no other can have, is the manifest:
//     what entries there have to be, and the votes (manifest.go). It is written
//     in the transaction that changes what it tells. So neither a flipped bit
//     nor a missing entry, be it the last one, goes unseen.
//
// At a start the file is read from end to end before it is opened for writing:
// its pages by the rules of bbolt's format and trusting nothing (pages.go), and
// every entry that the manifest names (check.go). Beside it stands a note of
// how far it had come, as bbolt takes a file as it was for the file as it is
// (highwater.go).
//
// Entries go to the write-ahead log where there is one and they fit. All else
// is a transaction, which brings what the write-ahead log holds
// (transaction.go).
package boltlog
