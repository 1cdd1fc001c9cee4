package membership

import (
	"time"

	"github.com/stoutlock/stout/internal/histogram"
)

// Health is how a replica stands to its leader.
type Health struct {
	Contact time.Duration // since it last heard of a leader; zero on the leader itself
	Heard   bool          // it has ever heard of one
	Applied uint64        // index of the last entry applied here
	Behind  uint64        // entries known here to be committed and not yet applied; a follower may not know of all
}

// Vitals are a replica's own figures, for whoever watches it.
type Vitals struct {
	Term      uint64 // of Raft
	Last      uint64 // index of the last entry of the log
	Committed uint64 // index up to which this replica knows that entries are committed
	Applied   uint64 // index of the last entry that was applied here
	Elections uint64 // how often it has begun to campaign since it was started
	Leaders   uint64 // and how often it has learned of a leader that it did not know of
	Stored    histogram.Snapshot
	Applying  histogram.Snapshot
	// Stages of the entries that this replica proposed itself, as leader: until
	// one was on its own disk, from then until it was committed, and until it was
	// applied here.
	Disk, Followers, OwnApplied histogram.Snapshot
	// Steps of a fail-over to this replica: from the last word of a leader to its
	// campaign, and from there to its election.
	Detected, Elected histogram.Snapshot
	Snapshots         Snapshots
}

// Snapshots are the figures of a replica's snapshots.
type Snapshots struct {
	Took     histogram.Snapshot // to write one, an own one or the master's
	Failures uint64             // attempts to write, read or send one, or to receive one whole
	Last     time.Time          // when one was last written since the start; zero before
}
