// Package disk puts files and names on the disk, so that they are there after a
// loss of power.
//
// A name is on the disk when the directory that it stands in was synced,
// whatever was synced of the file. And a process that is killed before that
// leaves names which the next one sees, as if they were there for good, until
// the power is lost. So each start syncs the directories that it finds, before
// anything rests on what is in them.
package disk
