// Package boltlog keeps Raft's log and votes in a file of raft-boltdb and finds
// damage. A write-ahead log may precede the file (package wal).
//
// raft-boltdb has no checksums, and treats a file without its last entries, or
// without a vote, as whole. So the file has more than Raft's entries:
//
//   - Each entry carries a CRC-32C in its extensions (seal.go).
//   - One more entry is the manifest, under an index that no other entry can
//     have. It names the entries that must exist, and the votes (manifest.go).
//     It is written in the transaction that makes each change. So neither a
//     flipped bit nor a missing entry, even the last one, goes undetected.
//
// At a start the file is read from end to end before it is opened for writing.
// The pages are checked by the rules of bbolt's format, trusting no value in
// them (pages.go), then every entry that the manifest names (check.go). A note
// beside the file records how far the log had come, because bbolt accepts an
// older copy of the file as current (highwater.go).
//
// Entries go to the write-ahead log if there is one and they fit. Any other
// change is a transaction, which also stores the contents of the write-ahead
// log (transaction.go).
package boltlog
