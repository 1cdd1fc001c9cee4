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

// works are all of them, in the order in which they run.
var works = []work{
	{"cycle", "each session takes and releases a lock of its own", looped("cycle", prepareCycle, 1, 8, 64, 256)},
	{"handover", "all sessions queue for one lock", looped("handover", prepareHandover, 16)},
	{"read", "linearizable reads of a lock", looped("read", prepareRead, 64)},
	{"refuse", "tries for a lock that another session holds", looped("refuse", prepareRefuse, 64)},
	{"put", "each session overwrites a file of its own of 1 KiB", looped("put", preparePut, 1, 8, 64, 256)},
	{"get", "linearizable reads of a file of 1 KiB", looped("get", prepareGet, 64)},
	{"cas", "all sessions count up one file by compare-and-set", looped("cas", prepareCas, 16)},
	{"txn", "transactions of 2 conditions and 4 writes of 1 KiB, each session on files of its own", looped("txn", prepareTxn, 64)},
	{"secured", "cycle and read in a cell with TLS and access, in turn with a plain one", runSecured},
	{"handshake", "connections with TLS that ask one thing and end", looped("handshake", prepareHandshake, 16)},
	{"idle", "sessions that do nothing but live", runIdle},
	{"failover", "kill -9 of the master: the gap in service", runFailover},
	{"fanout", "a write, until the last of n watchers of a file is told; and 16 others who write meanwhile", runFanout},
	{"ephemeral", "n files of a process that is killed: when all of them are gone", runEphemeral},
	{"files", "n files of 1 KiB: what they take, and what they do to a single write", runFiles},
	{"waiters", "n wait for one lock, half of them with a call under way", overloaded("waiters", 10_000, loadWaiters)},
	{"expire", "n sessions expire at once, and their locks go to waiters", overloaded("expire", 10_000, loadExpire)},
	{"return", "n sessions come back after a kill -9 of the master", overloaded("return", 10_000, loadReturn)},
	{"slowloris", "n connections that send nothing, a byte now and then, or read no reply", overloaded("slowloris", 10_000, loadSlowloris)},
	{"pages", "16 readers page through n locks, 1000 at a time", overloaded("pages", 100_000, loadPages)},
	{"viewers", "single operations while n browsers show the cell's page", overloaded("viewers", 200, loadViewers)},
	{"deep", "single operations on a cell of n held locks and n places in a queue", overloaded("deep", 100_000, loadDeep)},
	{"past", "single operations on a cell that has granted n locks, all released", overloaded("past", 1_000_000, loadPast)},
	{"snapshot", "16 sessions on a cell of n others with a lock each, while it writes snapshots", overloaded("snapshot", 99_000, loadSnapshots)},
	{"renewal", "a backup, a transfer and new machines for all three, in a cell of n locks and n files under load", runRenewal},
	{"soak", "cycles for long: elections that nobody asked for", runSoak},
}

// onlyByName are the works that do not run without being named: they take long,
// or a machine that does nothing else.
var onlyByName = []string{"secured", "handshake", "fanout", "ephemeral", "files", "waiters", "expire", "return", "slowloris", "pages", "viewers", "deep", "past", "snapshot", "renewal", "soak"}

// defaultWorks are those that run without being named.
func defaultWorks() (names []string) {
	for _, w := range works {
		if !slices.Contains(onlyByName, w.name) {
			names = append(names, w.name)
		}
	}
	return names
}

func workNames() (names []string) {
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
