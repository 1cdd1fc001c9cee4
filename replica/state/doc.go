// Package state is Stout's replicated state machine: sessions, locks, their
// queues and fencing tokens, and the master's term of office.
//
// It is a pure function of the log. Apply takes a state, the position of an
// entry and the batch in it, and returns the next state with the results and
// events; there is no clock, no randomness, no goroutine and no I/O in here,
// and nothing is iterated in map order. Ids and times ride in the commands, put
// there by the master before it proposes. Two replicas that applied the same
// log hold the same bytes (see State.Snapshot), which is what the tests
// compare.
//
// Nothing ends by itself: a session, a wait and a lock-delay last until the
// master proposes their end. What follows from an end happens in that same
// command: a release and the grant to the next waiter are one, and a session
// that dies takes its waits along before anything is handed on.
//
// A *State is immutable. Readers use one from any goroutine for as long as they
// like; its parts share structure with its predecessors (persistent trees,
// internal/btree), so keeping one costs nothing but the memory that has changed
// since.
package state
