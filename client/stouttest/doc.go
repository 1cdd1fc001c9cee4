// Package stouttest runs a cell in memory, for unit tests of programs that use
// package client:
//
//	cell := stouttest.New(t, stouttest.Options{})
//	session, err := cell.Client().NewSession(t.Context())
//
// The replicas are the server's own code, from the HTTP interface down to the
// replicated state. Only the network and the log between them are simulated in
// memory: the cell listens on no port and writes to no disk.
//
// # Virtual time
//
// In a bubble of testing/synctest everything runs in virtual time, so a test of
// sessions that expire takes milliseconds. Make the cell and its clients inside
// the bubble. Before it ends, end the program, wait for its goroutines, and close the
// sessions. Outside a bubble the same calls run in real time. Under the race detector
// a test with bubbles sets GOMAXPROCS to 1 first: the detector of Go 1.26 fails if
// timers of one bubble run on two threads (golang/go#78156).
//
// # Faults
//
// KillMaster and IsolateMaster make another replica take over. Stop and Start
// end and start the process of one replica. A process that starts keeps no
// earlier events, as after a snapshot, so a watcher that is behind may get
// Compacted. Depose leaves the cell without a master until Elect. ExpireSession
// and ReleaseByForce revoke a program's locks. Cut, Lose and LoseAnswers
// disturb the network of one client until Mend. Delay slows that of all clients
// until it is set to 0.
//
// The members of the cell and their URLs are fixed: calls that change them are
// refused. The cell bounds nothing by itself, as stoutd's settings do (max-sessions and
// others); a quota of a principal (client/admin) does.
package stouttest
