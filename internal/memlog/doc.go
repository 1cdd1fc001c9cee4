// Package memlog is a replicated log in memory, for tests: it stands where
// package replica stands in a server, below package master.
//
// It keeps Raft's promises about the log. What Raft leaves open is the test's
// to decide: which node leads in which raft term, which nodes reach each other,
// how long an entry takes, how fast each node's clock runs. There are no
// elections by themselves and no heartbeats.
//
// The leader stores an entry at once, and the nodes that it reaches store it
// half a delay later. The entry is committed after a whole delay, if a majority
// has it then. The log of a new leader counts: followers drop entries that it
// lacks.
//
// All waits use package time, so a Cell works in a bubble of testing/synctest.
// Its methods, and those of its nodes, are safe for concurrent use.
package memlog
