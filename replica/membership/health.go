package membership

import "time"

// Health describes a replica's relation to its leader.
type Health struct {
	Contact   time.Duration // time since its last contact with a leader; zero on the leader itself
	HasLeader bool          // it has had contact with a leader
	Applied   uint64        // index of the last entry applied here
	Behind    uint64        // entries known here as committed and not yet applied; a follower may not know of all
}
