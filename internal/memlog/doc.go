// Package memlog is a replicated log in memory, for tests. It replaces package
// replica below package master.
//
// It keeps Raft's promises about the log. The test decides what Raft leaves
// open: the leader of each raft term, the nodes that reach each other, the
// delay of an entry, and the rate of each node's clock. There are no automatic
// elections and no heartbeats.
//
// The leader stores an entry at once, and the nodes that it reaches store it
// half a delay later. The entry is committed after a whole delay, if a majority
// has it then. The log of a new leader counts: followers drop entries that it
// lacks.
//
// All waits use package time, so a Cell works in a bubble of testing/synctest.
// The methods of a Cell and of its nodes are safe for concurrent use.
package memlog
