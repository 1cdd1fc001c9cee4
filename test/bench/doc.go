// Command bench puts load on a cell and measures it, to size a cell and to see
// the gain of a change of the code.
//
//	go run ./test/bench                                 the usual works
//	go run ./test/bench cycle --n 1,64 --via sdk,http   one of them
//	go run ./test/bench read --server http://10.0.0.1:7101,http://10.0.0.2:7101
//	go run ./test/bench cycle --n 64 --rate 500,1000,2000
//
// --help lists the works. Without --server, bench starts a cell of three
// processes on loopback with the shipped defaults, and stops it at the end.
// Load, cell and disk then share one machine. The figures therefore compare
// versions and settings, but do not predict a cell on separate machines.
//
// Some latencies need a definition:
//
//	handover  from the call of the release until the next holder knows
//	cas       one increment, with all its tries
//	fanout    from the call of a write until the last watcher has the event. The
//	          watchers are at all replicas; writes follow one another, or come at
//	          --rate
//
// The works expire and return measure another client before and during the
// load.
package main
