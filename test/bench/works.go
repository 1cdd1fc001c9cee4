package main

import (
	"context"
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
	{"idle", "sessions that do nothing but live", runIdle},
	{"failover", "kill -9 of the master: the gap in service", runFailover},
	{"soak", "cycles for long: elections that nobody asked for", runSoak},
}

// defaultWorks are those that run without being named.
func defaultWorks() (names []string) {
	for _, w := range works {
		if w.name != "soak" {
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
