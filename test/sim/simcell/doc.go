// Package simcell runs whole cells in one process, in virtual time, from seeds:
// the same seed makes the same run, instruction for instruction. Command sim
// builds and drives its test program (`make sim`).
//
// These parts are real, as shipped: package replica with hashicorp/raft and its
// stores, master, lease, replica/state, lockapi/server and client. These are
// simulated: the network (Raft's messages and HTTP), the loss of power
// (disk.go), and every clock. The simulator uses the real library instead of a
// model of it, because half of the possible faults lie in its use: when a
// promise is recorded, what an error means, what a restart forgets.
//
// Time is the time of a testing/synctest bubble: it passes when every goroutine
// waits. The bubble alone is not deterministic. select and timers of one
// instant draw lots, maps have random orders, and goroutines can be preempted.
// So the program is compiled against a Go runtime that draws these from the
// seed; see package overlay. There, one goroutine runs at a time until it
// waits, so the simulator's own data needs no locks.
//
// A seed first draws a profile: the kinds of faults and the work of the users,
// so that rare mixtures occur. Most faults fall anywhere; plots combine several
// acts that chance hardly ever would (plots.go). The oracle sees the committed
// log, what each replica has applied, and every answer to a user. Users call
// through the SDK and by bare HTTP calls sent once; probes rely on a session's
// lease to the last moment (probes.go). The oracle also applies each entry to
// the naive model of package model and requires the same outcome.
//
// In a quarter of the runs access is on. An operator keeps changing rights,
// guests make allowed and forbidden calls, and the oracle derives from the log
// by itself what each may do (rights.go). In a quarter of the runs members come
// and go (memberoperator.go). The oracle then requires a reason for each change
// of the configuration and of the table of members (roster.go). Some of these
// start with a cell of five, with one member away while another is replaced or
// added (absentee.go). In a quarter of the runs a program reads histories at
// any replica, and the oracle checks each ending and each waiting time
// (histories.go).
//
// In half of the runs requests for locks have priorities (ranks.go). In half of
// the runs users also come through the door for Consul's clients (keys.go,
// keyreads.go), and the oracle follows the keys in the log (keyrules.go). In
// half of the runs with access on the operator puts quotas of principals, and
// the oracle counts what each principal has (quotas.go).
package simcell
