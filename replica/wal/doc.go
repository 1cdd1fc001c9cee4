// Package wal is a write-ahead log of Raft entries before a store that is slow
// to write (option WAL).
//
// # Why
//
// bbolt syncs twice for each write, and writes four or five pages. Here an
// entry costs one write, behind the last one, and one sync. The sync has only
// data to write, because the file has all its blocks from the beginning.
//
// The gathered entries go to the store in one transaction when there are enough
// of them. They also go with any other write to the store: a vote, a deletion,
// the note of a snapshot. So the store remains the home of log and votes, and
// its checks stay valid. The write-ahead log only has the entries that came
// after the store's last transaction.
//
// # Generations
//
// Entries do not wait for a transaction. The file has two areas, which
// generations of entries use in turn. A transaction takes these steps:
//
//  1. It begins with a new generation (Rotate), which receives the entries from
//     then on.
//  2. It stores the entries of the previous generation, together with a Mark
//     that names the new one.
//  3. When it is on the disk, the previous generation is no longer needed
//     (Flushed).
//
// Transactions come one after the other, so at most two generations count at
// any time, one in each area:
//
//   - Before the transaction of generation g+1 is on the disk, the store's mark
//     names g. The entries of g follow the store's, and then any entries of
//     g+1.
//   - After that the mark names g+1, and g no longer counts. Only now may a
//     transaction of g+2 start, which uses the area of g.
//
// # Crashes
//
// A crash comes before or after the instant at which the transaction is on the
// disk. In both cases the store, the generation that its mark names and the
// next generation together have everything that was acknowledged.
//
// # Frames and blocks
//
// A frame has the entries of one write. It consists of blocks of the size that
// a disk writes completely or not at all. Each block begins with a CRC-32C over
// the rest of it. Then follow its own number, its generation and frame, its
// number of bytes, whether it is the last of its frame, and whether it was
// written after the transaction with which its generation began. This makes the
// following detectable:
//
//   - A write that a crash has torn differs from damage. After a torn write
//     each block is either new or old; an old one is from an earlier generation
//     or all zeros. A damaged block is neither. Only the last frame may be
//     torn: it was not acknowledged.
//   - Frame numbers continue from one generation to the next, and the mark has
//     the number of its generation's first frame. So the loss of the last frame
//     of g is found if g+1 has any.
//   - A block written after a transaction that the store does not have shows
//     that the transaction was lost.
//
// # A start
//
// The entries behind the mark are read and checked (Read). They are moved to
// the store before anything else happens. The next generation has a number that
// no block has.
package wal
