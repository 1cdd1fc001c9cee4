// Package state is Stout's replicated state machine: sessions, locks, their
// queues and fencing tokens, and the master's term of office.
//
// It is a pure function of the log. Apply takes a state, the position of an
// entry and its batch, and returns the next state with the results and events.
// The package has no clock, randomness, goroutine or I/O, and never depends on
// map order. The master puts ids and times into the commands before it proposes
// them. Two replicas that applied the same log hold the same bytes (see
// State.Snapshot); the tests compare these.
//
// Sessions, waits and lock-delays last until the master proposes their end. The
// same command carries out everything that follows from an end. A release and
// the grant to the next waiter are one command. A session that ends loses all
// its waits before any lock passes to the next waiter.
//
// A *State is immutable, so any goroutine may read it for as long as it likes.
// A state shares structure with its predecessors (persistent trees,
// internal/btree). Keeping an old one costs only the memory that has changed
// since.
package state
