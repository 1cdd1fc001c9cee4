// Package powerloss computes what a disk may hold after the power was lost at
// some point of a recorded run.
//
// The disk keeps what was synced, and of the rest anything: of what was written
// to a file since its last sync any of the sectors, and of the names that were
// given, changed and taken in a directory since its last sync any. A sync of a
// file says nothing of its name, nor one of a directory of what is in its
// files. That is less than ext4 or XFS promise, and all that POSIX does. Two
// things are taken for granted: a sector is written as a whole or not at all,
// and so is a change of a name.
package powerloss
