package rafttransport

import "github.com/stoutlock/stout/replica/cell"

// MaxAppendEntries bounds the entries of one message to a follower. An entry is
// a whole batch, and a message has Timeout to arrive.
const MaxAppendEntries = 16

// mostUncommitted is how many entries a leader leaves that were not committed:
// the batches in flight, its no-op, a barrier, the opening and the closing of
// an office, and a change of the members.
const mostUncommitted = cell.BatchesInFlight + 5

// A message has room for twice as many. Entries that were never committed stay
// in a log before a snapshot that was installed behind them, and a message that
// ends among them would have them committed. What guards against that is the
// gap of package raftstore; this keeps it rare: a message that begins with them
// reaches beyond. Whoever raises cell.BatchesInFlight has to raise
// MaxAppendEntries; else this does not compile.
const _ uint = MaxAppendEntries - 2*mostUncommitted
