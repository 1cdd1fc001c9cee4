package membership

import "time"

// Health is how a replica stands to its leader.
type Health struct {
	Contact time.Duration // since it last heard of a leader; zero on the leader itself
	Heard   bool          // it has ever heard of one
	Applied uint64        // index of the last entry applied here
	Behind  uint64        // entries known here to be committed and not yet applied; a follower may not know of all
}
