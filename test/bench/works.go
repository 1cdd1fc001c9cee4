package main

import (
	"context"
	"slices"
)

// work is one kind of load.
type work struct {
	name, about string
	run         func(context.Context, *bench) error
}

// usual are the works that run where the command line names none, in their order.
var usual = []work{
	{"cycle", "each session takes and releases a lock of its own", looped("cycle", prepareCycle, 1, 8, 64, 256)},
	{"handover", "all sessions queue for one lock", looped("handover", prepareHandover, 16)},
	{"read", "linearizable reads of a lock", looped("read", prepareRead, 64)},
	{"refuse", "tries for a lock that another session holds", looped("refuse", prepareRefuse, 64)},
	{"put", "each session overwrites a file of its own of 1 KiB", looped("put", preparePut, 1, 8, 64, 256)},
	{"get", "linearizable reads of a file of 1 KiB", looped("get", prepareGet, 64)},
	{"cas", "all sessions count up one file by compare-and-set", looped("cas", prepareCas, 16)},
	{"txn", "transactions of 2 conditions and 4 writes of 1 KiB, each session on files of its own", looped("txn", prepareTxn, 64)},
	{"idle", "sessions that do nothing but live", runIdle},
	{"failover", "kill -9 of the master: the gap in service", runFailover},
}

// works are all works. Those that are not usual take long, or need a machine that
// does nothing else.
var works = slices.Concat(usual, []work{
	{"secured", "cycle and read in a cell with TLS and access, in turn with a plain one", runSecured},
	{"fanout", "a write, until the last of n watchers of a file is told; and 16 others who write meanwhile", runFanout},
	{"expire", "n sessions expire at once, and their locks go to waiters", overloaded("expire", 10_000, loadExpire)},
	{"return", "n sessions come back after a kill -9 of the master", overloaded("return", 10_000, loadReturn)},
	{"snapshot", "16 sessions on a cell of n others with a lock each, while it writes snapshots", overloaded("snapshot", 99_000, loadSnapshots)},
	{"soak", "cycles for long: elections that nobody asked for", runSoak},
})

func names(works []work) (names []string) {
	for _, w := range works {
		names = append(names, w.name)
	}
	return names
}

func findWork(name string) *work {
	for i := range works {
		if works[i].name == name {
			return &works[i]
		}
	}
	return nil
}
