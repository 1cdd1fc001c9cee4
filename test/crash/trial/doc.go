// Command trial crashes the data directory of a replica. It opens the stores as
// a replica does, writes to them as Raft does, and records every write and sync
// (package recorded). Then it picks points of the record and loses the power
// there, with any of the unsynced data on the disk (package powerloss). It
// opens what is left and compares: every finished operation is there, each
// unfinished one is there whole or not at all, and nothing else is.
//
// The next round continues from one of these crashes, so that leftovers of
// several crashes meet. After some rounds it starts again with an empty disk,
// to test the founding.
//
// Do not build it plainly: command crash builds it so that the stores work
// through package recorded.
package main
