// Package recorded replaces package os in a program that is to lose its power.
// It records, in order, every operation on files and directories below some
// directory, its disk. The write-ahead log, bbolt, the library's snapshot store
// and package replica are compiled with it in place of os (overlay.Noted).
// Their sources do not know of it.
//
// It has only the parts of os that these use. A new way to write to a disk
// therefore fails to compile instead of going unnoticed. It syncs nothing.
package recorded
