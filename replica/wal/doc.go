// Package wal is a write-ahead log of Raft entries before a store that is slow
// to write (option WAL).
//
// # Why
//
// bbolt syncs twice for each write and writes four or five pages. Here an entry
// is one write, behind the last one, and one sync that has nothing to note but
// the data, for the file has all its blocks from the beginning. What has
// gathered goes to the store in one transaction, when there is enough of it,
// and with whatever else is written there: a vote, a deletion, the note of a
// snapshot. So the store remains the home of log and votes, and its checks hold
// as they stand; the write-ahead log only has what came after its last
// transaction.
//
// # Generations
//
// Entries do not wait for a transaction. The file has two areas, which
// generations of entries take in turn. A transaction begins with a new
// generation (Rotate), which takes the entries from then on, and brings what is
// in the one before it, with a Mark that names the new one (Flushed).
// Transactions come one after the other, so that no more than two generations
// count at any time, one in each area:
//
//   - Before the transaction of generation g+1 is on the disk, the store's mark
//     names g. Behind what the store has come the entries of g, and then those
//     of g+1, if any.
//   - From then on it names g+1, and g counts for nothing. Only now may there
//     be a transaction of g+2, which takes the area of g.
//
// # Crashes
//
// A crash comes before or after the instant at which the transaction is on the
// disk, and either way what the store has, the generation that its mark names
// and the next are all that was acknowledged.
//
// # Frames and blocks
//
// A frame is what one write has stored. It is made of blocks of the size that a
// disk writes whole or not at all. Each begins with a CRC-32C over all the rest
// of it, its own number, the generation and the frame that it belongs to, how
// many bytes it holds, whether it is the last of its frame, and whether it was
// written after the transaction that its generation began with. From this
// follows what is found:
//
//   - A write that a crash has torn differs from damage. There each block is
//     the new one or, as it was, one of an earlier generation or zeros; a
//     damaged block is neither. Only the last frame may be torn: it was not
//     acknowledged.
//   - Frames are numbered on from a generation to the next, and the mark has
//     the number of its generation's first: the loss of the last one of g is
//     found when g+1 has any.
//   - A block from after a transaction that the store does not have tells of
//     its loss.
//
// # A start
//
// The entries behind the mark are read and checked (Read) and handed to the
// store before anything else happens, and the generation that follows is one
// that no block is of.
package wal
