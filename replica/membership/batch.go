package membership

import "errors"

// What may have become of a batch that was not answered, or of a change.
var (
	// ErrNotApplied says that it certainly had, and will have, no effect.
	ErrNotApplied = errors.New("not applied")
	// ErrUnknown says that it may have taken effect, or may yet.
	ErrUnknown = errors.New("outcome unknown")
)

// What a master keeps to when it proposes, and a replica relies on: how large
// an entry or a message may be, and how many entries a leader can leave behind
// that were never committed, follow from these.
const (
	// MaxBatchBytes bounds the commands of a batch, as state.Command.Size
	// counts them, where it has more than one.
	MaxBatchBytes = 256 << 10
	// MaxCommandBytes bounds one command, as state.Command.Size counts it, and
	// so a batch that has no other. The largest is a transaction whose body is
	// as long as the contract lets it be.
	MaxCommandBytes = 528 << 10
	// MaxEntryBytes bounds an entry as it is encoded. A batch has less, also
	// with its encoding and a checksum that rides along. A larger one is
	// refused before it is in the log: followers close the connection on which
	// more comes than they know to be sent.
	MaxEntryBytes = MaxCommandBytes + 64<<10
	// BatchesInFlight is how many batches are under way at once. With two, one
	// is on the leader's disk while the other is on the followers'.
	BatchesInFlight = 2
)
