// Command bench puts load on a cell and measures what it takes: to size a cell,
// and to see what a change of the code has gained.
//
//	go run ./test/bench                                 the works from cycle to failover
//	go run ./test/bench cycle --n 1,64 --via sdk,http   one of them
//	go run ./test/bench read --server http://10.0.0.1:7101,http://10.0.0.2:7101
//	go run ./test/bench cycle --n 64 --rate 500,1000,2000 --plot latency.svg
//
// Without --server it starts a cell of three processes on loopback with the
// shipped defaults, and ends it again. Load, cell and disk then share one
// machine, so the figures compare versions and settings; they are no promise of
// what the cell does on machines of its own.
//
// The works are:
//
//	cycle     each session takes and releases a lock of its own
//	handover  all sessions queue for one lock; the latency of a hand-over counts
//	          from the call of the release until the next holder knows
//	read      linearizable reads of a lock
//	refuse    tries for a lock that another session holds
//	put       each session overwrites a file of its own of 1 KiB
//	get       linearizable reads of a file of 1 KiB
//	cas       all sessions count up one file; the latency of an increment has all its
//	          tries in it
//	txn       transactions of 2 conditions and 4 writes of 1 KiB
//	idle      sessions that do nothing but live: what they cost the master
//	failover  kill -9 of the master: the gap in service
//	renewal   what clients notice of a backup, a transfer, a new member and new machines for
//	          all three, in a cell of n locks and n files of 1 KiB under full load
//	soak      cycles for long: elections that nobody asked for
//	fanout    a write, until the last of n watchers of a file is told, over all
//	          replicas; and what 16 others write meanwhile, of what they write
//	          while nobody watches. Writes follow one another, or come at --rate
//	ephemeral n files of 20 sessions of a process that is killed: when all are gone
//	files     n files of 1 KiB, beside another cell with as many writes to few files:
//	          the memory of the replicas, a single writer on each in turn, and the
//	          longest write while replicas write snapshots: give it --stoutd-arg=--snapshot-threshold=2000
//	          --stoutd-arg=--snapshot-interval=5s, else there may be none to see
//
// Loads that hurt, each with another client who is watched before and under it:
//
//	waiters    n wait for one lock
//	expire     n sessions expire at once, and their locks go to waiters
//	return     n sessions come back after a kill -9 of the master
//	slowloris  n connections that send nothing, little, or read no reply
//	pages      readers page through n locks
//	viewers    n browsers show the page of the cell, at all replicas
//	deep       single operations on a cell of n held locks and n places in a queue
//	past       single operations on a cell that has granted n locks, all released
//	snapshot   16 sessions on a cell of n others, while it writes snapshots; give it
//	           --stoutd-arg=--snapshot-threshold=2000 --stoutd-arg=--snapshot-interval=5s
package main
