// Package recorded stands for package os in a program that is to lose its
// power: what files and directories below some directory, its disk, are put
// through is noted, in order. The write-ahead log, bbolt, the library's store
// of snapshots and package replica are compiled with it in the place of os
// (overlay.Noted); their sources know nothing of it.
//
// It has what those need of os and no more, so that a new way to write to a
// disk does not compile rather than go unnoticed. Nothing is really synced.
package recorded
