// Package events remembers the last events of one replica: what was done to files,
// to locks and to the mastership, each with its revision.
//
// A [Ring] is filled with the changes that [state.State.Apply] returns, on every
// replica alike, and emptied by a restore. It is no part of the state: it costs
// neither snapshot nor agreement, and where it does not reach back it says so with
// [Compacted]. A watcher is a revision, nothing more: it reads on from there when
// [Ring.Changed] tells it to, and a slow one holds nobody up.
//
// What it costs: an event takes some 150 bytes and its stat or grant, never the content of
// a file. A read takes the ring's mutex for as long as it takes to copy a slice
// header, and looks at the events without it: one comparison of bits for an event
// whose type is not asked for, else one look into a map and one binary search. It
// looks only at what came since the watcher's revision. An event wakes the watches
// whose filter it passes and whose principal may read its node, which is looked up
// once for each principal.
package events
