// Package membership has the types and bounds that a replica shares with its
// users: the members and their health, the outcome of a batch of commands, and
// the size of a batch.
//
// It links no consensus library and no storage. So package master is built and
// tested without these.
package membership
