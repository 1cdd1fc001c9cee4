// Package disk puts files and names on the disk, so that they survive a loss of
// power.
//
// A name is on the disk only once its directory was synced, even if the file
// itself was. A process that is killed before that leaves names on which the
// next process would rely, although they are lost with the power. So each start
// syncs the directories that it finds before it relies on their contents.
package disk
