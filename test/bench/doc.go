// Command bench puts load on a cell and measures what it takes: to size a cell,
// and to see what a change of the code has gained.
//
//	go run ./test/bench                                 the usual works
//	go run ./test/bench cycle --n 1,64 --via sdk,http   one of them
//	go run ./test/bench read --server http://10.0.0.1:7101,http://10.0.0.2:7101
//	go run ./test/bench cycle --n 64 --rate 500,1000,2000
//
// --help lists the works. Without --server bench starts a cell of three processes
// on loopback with the shipped defaults, and ends it again. Load, cell and disk
// then share one machine, so the figures compare versions and settings; they are
// no promise of what the cell does on machines of its own.
//
// Some latencies need a definition:
//
//	handover  from the call of the release until the next holder knows
//	cas       of an increment, with all its tries
//	fanout    from the call of a write until the last watcher is told. The watchers
//	          are at all replicas; writes follow one another, or come at --rate
//
// The works expire, return and snapshot watch another client before the load and
// under it. snapshot needs --stoutd-arg=--snapshot-threshold=2000
// --stoutd-arg=--snapshot-interval=5s, else there may be no snapshot to see.
package main
