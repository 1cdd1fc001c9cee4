// Package simcell runs whole cells in one process, in virtual time, from seeds:
// the same seed makes the same run, instruction for instruction. Its test
// program is built and driven by command sim (`make sim`).
//
// What is real: package replica with hashicorp/raft and the stores in it,
// master, lease, replica/state, lockapi/server and client, as they are shipped.
// What is simulated: the network (of Raft's messages and of HTTP), the loss of
// power (disk.go), and every clock. The real library is used rather than a
// model of it, because half of what can go wrong lies in how it is used: when a
// promise is noted, what an error of its means, what a restart forgets.
//
// Time is that of a testing/synctest bubble: it passes when every goroutine
// waits. The bubble alone is not deterministic (select and timers of one
// instant draw lots, maps have random orders, a goroutine can be preempted), so
// the program is compiled against a Go runtime in which these draw from the
// seed; see package overlay. There, one goroutine runs at a time until it
// waits, and the simulator's own data needs no locks.
//
// A seed draws a profile first: which faults there are, and what the users do,
// so that rare mixtures are met. Most faults fall anywhere; plots put several
// acts together that chance would not (plots.go). The judge sees the committed
// log, what each replica has applied, and what each user was told: by the SDK,
// by bare HTTP calls sent once, and by witnesses, who take a session at its
// word to the last moment. In a quarter of the runs access is on: an operator
// changes rights all the time, guests do what they may and what they may not,
// and the judge makes out of the log by itself who may do what (rights.go). In a
// quarter of them members come and go (steward.go), and the judge wants to know what
// each change of the configuration and of the table of members is for (roster.go). Some
// of these begin with a cell of five of which one is away while another is replaced or
// added (absentee.go).
// In a quarter somebody reads histories at any replica, and the judge
// checks what each ending was and how long was waited (histories.go). The judge applies
// each entry to the naive model of package model, too, and wants the same outcome.
package simcell
