package main

import (
	"context"
	"slices"
)

type work struct {
	name, about string
	run         func(context.Context, *bench) error
	atDoor      bool // it can also go through the door for Consul's clients
}

// usual are the default works, in their order.
var usual = []work{
	{"cycle", "each session acquires and releases its own lock", looped("cycle", prepareCycle, 1, 8, 64, 256), true},
	{"handover", "all sessions queue for the same lock", looped("handover", prepareHandover, 16), false},
	{"read", "linearizable reads of a lock", looped("read", prepareRead, 64), true},
	{"refuse", "attempts to acquire a lock that another session holds", looped("refuse", prepareRefuse, 64), true},
	{"put", "each session overwrites its own file of 1 KiB", looped("put", preparePut, 1, 8, 64, 256), true},
	{"get", "linearizable reads of a file of 1 KiB", looped("get", prepareGet, 64), true},
	{"cas", "all sessions increment a counter in one file by compare-and-set", looped("cas", prepareCas, 16), true},
	{"txn", "transactions of 2 conditions and 4 writes of 1 KiB, each session on its own files", looped("txn", prepareTxn, 64), false},
	{"idle", "sessions that only send keepalives", runIdle, false},
	{"failover", "kill -9 of the master: the gap in service", runFailover, false},
}

// works are all works. The works that are not usual take long, or need an
// otherwise idle machine.
var works = slices.Concat(usual, []work{
	{"secured", "cycle and read in a cell with TLS and access control, in turn with a plain one", runSecured, false},
	{"fanout", "the time of a write until the last of n watchers has the event, with 16 other writers", runFanout, true},
	{"expire", "n sessions expire at once, and their locks go to waiters", overloaded("expire", 10_000, loadExpire), false},
	{"return", "n sessions return after a kill -9 of the master", overloaded("return", 10_000, loadReturn), false},
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
