// Package membership has the words that a replica shares with those who use it: who
// the members are and how one stands, what became of a batch of commands, and
// how much a batch may hold.
//
// It links no consensus library and no store. So package master, which speaks
// of all this, is built and tested without them.
package membership
