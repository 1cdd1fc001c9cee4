package replica

import "github.com/stoutlock/stout/replica/cell"

// maxAppendEntries bounds the entries of one message to a follower. An entry is
// a whole batch, and a message has rpcTimeout to arrive.
const maxAppendEntries = 16

// mostUncommitted is how many entries a leader leaves that were not committed:
// the batches in flight, its no-op, a barrier, the opening and the closing of
// an office, and a change of the members.
const mostUncommitted = cell.BatchesInFlight + 5

// A message has room for twice as many. Entries that were never committed stay
// in a log before a snapshot that was installed behind them, and a message that
// ends among them would have them committed. What guards against that is gap;
// this keeps it rare: a message that begins with them reaches beyond. Whoever
// raises cell.BatchesInFlight has to raise maxAppendEntries; else this does not
// compile.
const _ uint = maxAppendEntries - 2*mostUncommitted
