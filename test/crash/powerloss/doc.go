// Package powerloss computes what a disk may hold after a loss of power at some
// point of a recorded run.
//
// The disk keeps everything synced. It may keep any of the rest: any sectors
// written to a file since its last sync, and any names created, changed or
// removed in a directory since its last sync. A sync of a file does not cover
// its name. A sync of a directory does not cover the contents of its files.
// ext4 and XFS promise more; POSIX promises only this. Two things are assumed:
// a sector is written whole or not at all, and so is the change of a name.
package powerloss
