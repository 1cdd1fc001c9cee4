package membership

import "errors"

// Outcomes of a batch, or of a change of the membership, that is not known to
// have succeeded.
var (
	// ErrNotApplied reports that the batch or change has no effect, and will
	// have none.
	ErrNotApplied = errors.New("not applied")
	// ErrUnknown reports that the batch or change may have an effect, now or
	// later.
	ErrUnknown = errors.New("outcome unknown")
)

// Bounds that a master keeps when it proposes, and on which a replica relies.
// They bound the size of an entry and of a message, and the number of
// uncommitted entries that a leader can leave behind.
const (
	// MaxBatchBytes bounds the commands of a batch of more than one command, as
	// state.Command.Size counts them.
	MaxBatchBytes = 256 << 10
	// MaxCommandBytes bounds one command, as state.Command.Size counts it, and
	// so a batch of one command. The largest is a transaction of keys, with 128
	// paths besides values of the maximum length in the contract.
	MaxCommandBytes = 720 << 10
	// MaxEntryBytes bounds an encoded entry. A batch stays below it, including
	// its encoding and checksum. A larger entry is refused before it enters the
	// log, because followers close a connection that exceeds the bound they
	// know.
	MaxEntryBytes = MaxCommandBytes + 64<<10
	// BatchesInFlight is the number of batches in progress at once. With two,
	// one is written to the leader's disk while the other is on the followers'.
	BatchesInFlight = 2
)
