// Package lease is the arithmetic of time that Stout's safety rests on: the
// master's lease, the promises that replicas make by storing log entries, and
// the deadlines of sessions. It reads no clock: every method takes the instant
// of the question, on the replica's own clock (see internal/boottime).
//
// The master lease is carried by the log ("the log is the lease"). Every log
// entry is a batch with a lease term. The master reads its clock before it
// proposes the batch. Once the batch is accepted the master may act, from its
// own memory and alone, until that instant plus the term. A replica that stores
// the entry thereby promises that no other master acts before the lease has run
// out: when it is elected itself, it first waits one term from when it last
// stored such an entry. An entry that made a lease is in the log of every later
// leader, and was stored there after its master had read the clock. So the wait
// ends after the lease. Related work: Paxos Made Live (Chandra et al. 2007),
// section 5.2; LeaseGuard (arXiv 2512.15659).
//
// Clocks may run at different rates. Drift bounds how far a replica's clock may
// run from true time. Each replica applies its own bound in both roles: it
// shortens the time that it may use and lengthens the time that it owes.
package lease
