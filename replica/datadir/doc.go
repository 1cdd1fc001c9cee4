// Package datadir manages the data directory of a replica: its owner, and the
// stores in it.
//
// All access to the disk goes through it. It uses
//
//   - package boltlog: the log and the votes, in raft.db, and their checks
//   - package wal: the write-ahead log that may precede raft.db, in raft.wal
//   - package snapshots
//   - package disk, which puts files and names on the disk
//
// The rule: a replica recovers, or refuses to start and reports what to do. It
// never serves or votes as if it had not acknowledged what it did acknowledge.
package datadir
