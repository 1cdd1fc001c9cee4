// Command trial crashes the data directory of a replica. It opens the stores as
// a replica does, writes to them as Raft does, and has every write and sync
// noted (package recorded). Then, for any points of the record, it has the
// power lost there, with any of what was not synced on the disk (package
// powerloss), opens what is left, and compares: whatever had ended is there,
// what was under way is there whole or not at all, and nothing else is.
//
// It goes on from one of these crashes with a further round, so that what is
// left over from several comes together, and after some rounds with an empty
// disk, for the founding.
//
// It is no use built plainly: command crash builds it so that the stores do
// their work through package recorded.
package main
