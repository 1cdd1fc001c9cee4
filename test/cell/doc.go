// Package cell runs Stout cells of real stoutd processes on this machine, and
// does to them what the world does: kills, stops, restarts and parts them.
//
//	c := cell.New(t, cell.Options{Network: true})   // three replicas, a master in office
//	old, _ := c.WaitMaster(ctx)
//	c.Network().Isolate(old.ID)
//	master, err := c.WaitMaster(ctx)                 // another one, after the lease ran out
//	c.Network().Heal()
//
// Start is the same without a testing.TB. Every process belongs to the cell:
// Close ends them, and on Linux they die with the program that started them,
// however it ends. Every wait is bounded by a context.
//
// A cell's directory holds for each replica rN its data directory rN and what
// it wrote to its standard streams, rN.log. When a test fails, the ends of the
// logs are shown with it.
//
// # Partitions
//
// With Options.Network every replica dials each other one through a proxy of
// its own: its --replica list has the same ids as everybody's, but addresses
// that belong to it alone. Bytes of a direction that is cut vanish, as does the
// the news that a connection was closed; a connection that lost bytes is reset
// when the cut is healed, because TCP would never deliver what comes after a
// gap. Bytes of a direction that is held arrive late, when the hold is lifted.
// A direction with a Shape is slow, stalls now and then, breaks connections, or
// stalls at what is large.
//
// # The binary
//
// stoutd is built once per test program from the module's sources, with the
// race detector where the test program has it; a race in a replica ends it with
// exit code 66 and a report in its log. STOUT_TEST_STOUTD names a finished
// binary to use instead. The package runs on Unix.
package cell
