// Package events keeps the last events of one replica: changes of files, locks
// and the mastership, each with its revision.
//
// Every replica fills its [Ring] with the changes that [state.State.Apply]
// returns, and a restore empties it. The ring is not part of the state, so it
// costs neither snapshot nor agreement. If it does not reach back far enough,
// it returns [Compacted]. A watcher needs only a revision: it reads from there
// when [Watch.Ready] has a value. A slow watcher does not delay anything.
//
// An event takes some 150 bytes plus its stat or grant, and never the content
// of a file. A read holds the ring's mutex only to copy a slice header. Without
// it, the read examines the events after the watcher's revision. An event of
// another type costs one comparison of bits, any other one map look-up and one
// binary search. An event wakes the watches with a matching filter and a
// principal that may read its node. The right is looked up once per principal.
package events
