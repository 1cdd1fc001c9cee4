// Package stouttest is a cell in memory, for unit tests of programs that use
// package client:
//
//	cell := stouttest.New(t, stouttest.Options{})
//	session, err := cell.Client().NewSession(t.Context())
//
// The replicas are the server's own code from the HTTP interface down to the
// replicated state. Only the log between them and the network are made of
// memory: nothing listens on a port, and nothing is written to a disk.
//
// # Virtual time
//
// In a bubble of testing/synctest everything runs in virtual time, so a test of
// sessions that expire takes milliseconds. Make the cell and its clients inside
// the bubble, and close the sessions before it ends. Outside of a bubble the
// same calls run in real time. Under the race detector a test with bubbles sets
// GOMAXPROCS to 1 first: the detector of Go 1.26 does not bear timers of one
// bubble on two threads (golang/go#78156).
//
// # Harm
//
// KillMaster and IsolateMaster have another replica take over, Stop and Start end
// and begin the process of one. Depose leaves the cell without a master until
// Elect. ExpireSession and ReleaseByForce take away what a program holds. Cut,
// Lose and LoseAnswers disturb the network of one client until Mend, and Delay
// that of all clients until it is set to 0.
//
// The members of the cell and their URLs do not change: calls that change them
// are refused.
package stouttest
