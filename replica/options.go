package replica

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/boottime"
	"github.com/stoutlock/stout/internal/progress"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/peerconn"
)

// Options configure a replica. All durations count on the replica's own clock.
// Fields without a stated default are required.
type Options struct {
	Cell    string
	ID      string // one of Members
	DataDir string // created if it does not exist
	// RaftListen is the address to listen on for the other replicas.
	RaftListen string
	// Security is the TLS of connections between replicas; nil means no TLS.
	Security peerconn.Security
	// Members found the cell, all together and once (package admission). Later
	// they only give each replica's addresses; they do not change the
	// membership.
	Members []membership.Member
	// Join, if not nil, returns the members of an existing cell. Members then
	// has only this replica's own entry, and the replica founds no cell. Join
	// is called when the replica starts, and repeatedly while it is not a
	// member.
	Join    func(context.Context) ([]membership.Member, error)
	Version string // of this release, shown by the other replicas
	// FoundAccess, if not empty, founds the cell with access on. It is a digest
	// of the root's secret, the same on all founders.
	FoundAccess string

	MasterLease      time.Duration // term of the lease that each batch carries; at most lease.MaxTerm
	HeartbeatTimeout time.Duration // silence of the leader after which a replica campaigns
	ElectionTimeout  time.Duration // how long a candidate waits for votes
	ClockDrift       float64       // bound on how far this clock runs from true time, as a fraction

	SnapshotThreshold uint64        // entries since the last snapshot that make a new one; default 8192
	SnapshotInterval  time.Duration // how often the threshold is checked; default 30 s
	TrailingLogs      uint64        // entries kept behind a snapshot; default 10240
	// EventHistory and EventHistoryBytes bound the events that the replica keeps;
	// default 65 536 and 64 MiB.
	EventHistory      int
	EventHistoryBytes int64
	// WAL turns on the write-ahead log before raft-boltdb.
	WAL bool

	// Progress watches the steps of the replica and any that callers add. A
	// leader falls silent if one of its steps hangs for longer than
	// MasterLease. Default: a watch of its own.
	Progress *progress.Watch

	Logger zerolog.Logger
	// Clock is a clock that never steps; default boottime.Now.
	Clock func() time.Duration
}

func (o *Options) setDefaults() {
	o.SnapshotThreshold = cmp.Or(o.SnapshotThreshold, 8192)
	o.SnapshotInterval = cmp.Or(o.SnapshotInterval, 30*time.Second)
	o.TrailingLogs = cmp.Or(o.TrailingLogs, 10240)
	o.EventHistory = cmp.Or(o.EventHistory, 65536)
	o.EventHistoryBytes = cmp.Or(o.EventHistoryBytes, 64<<20)
	if o.Clock == nil {
		o.Clock = boottime.Now
	}
	if o.Progress == nil {
		o.Progress = progress.New(o.Clock)
	}
}

// check returns an error for invalid options.
func (o *Options) check() error {
	if _, ok := o.member(o.ID); !ok {
		return fmt.Errorf("replica %q is not in the list of replicas", o.ID)
	}
	if o.MasterLease < time.Millisecond || o.MasterLease > lease.MaxTerm {
		return fmt.Errorf("the master lease is %v; it must be within 1ms..%v", o.MasterLease, lease.MaxTerm)
	}
	return nil
}

func (o *Options) member(id string) (membership.Member, bool) {
	for i := range o.Members {
		if o.Members[i].ID == id {
			return o.Members[i], true
		}
	}
	return membership.Member{}, false
}

func (o *Options) drift() lease.Drift { return lease.Drift(o.ClockDrift) }
