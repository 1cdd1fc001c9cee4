// Package datadir is the data directory of a replica: whose it is, and the
// stores in it.
//
// It is the one door to all that is on the disk. Behind it are
//
//   - package boltlog, the log and the votes, in raft.db, and their checks
//   - package wal, the write-ahead log that may stand before that, in raft.wal
//   - package snapshots
//   - package disk, which puts files and names on the disk
//
// The rule is: a replica recovers, or refuses to start and says what to do; it
// never serves, nor votes, as if it had not acknowledged what it had.
package datadir
