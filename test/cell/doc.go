// Package cell runs Stout cells of real stoutd processes on this machine, and
// causes faults in them: it kills, stops, restarts and partitions replicas.
//
//	c := cell.New(t, cell.Options{Network: true})   // three replicas, one of them master
//	old, _ := c.WaitMaster(ctx)
//	c.Network().Isolate(old.ID)
//	master, err := c.WaitMaster(ctx)                 // another one, after the lease ran out
//	c.Network().Heal()
//
// Start does the same without a testing.TB. Every process belongs to the cell:
// Close ends them, and on Linux they die with the program that started them,
// however it ends. Every wait is bounded by a context.
//
// For each replica rN, a cell's directory holds its data directory rN and its
// standard output and error, rN.log. A failing test shows the last lines of the
// logs.
//
// # Partitions
//
// With Options.Network, every replica dials each other one through a separate
// proxy: all --replica lists have the same ids, but each has its own addresses.
// A direction can be cut: its bytes vanish, as does the news that a connection
// was closed. A connection that lost bytes is reset when the cut is healed,
// because TCP would never deliver what follows a gap. A direction with a Shape
// is slow, stalls now and then, breaks connections, or stalls at large chunks.
//
// # The binary
//
// stoutd is built once per test program from the module's sources, with the
// race detector if the test program has it. A race in a replica ends it with
// exit code 66 and a report in its log. STOUT_TEST_STOUTD names an existing
// binary to use instead. The package runs on Unix.
package cell
