package master

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/internal/progress"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/master/internal/members"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// Log is the replicated log as an office needs it. *replica.Replica implements
// it; the tests have one in memory.
type Log interface {
	// Leading reports whether this replica leads, and in which raft term.
	Leading() (term uint64, ok bool)
	// Changed is closed at the next change of leadership.
	Changed() <-chan struct{}
	// Barrier returns when everything committed before is applied here.
	Barrier(context.Context) error
	// Submit hands a batch over; the returned function waits for its
	// outcome.
	Submit(state.Batch) func() (*state.Outcome, error)
	// Due returns a command that the log itself wants to add to a batch, if
	// there is one: a mark or a sum of a checksum of the state. It returns
	// each command once.
	Due() (state.Command, bool)
	// State returns the state after the last entry applied here.
	State() *state.State
	// Events returns the latest events applied here. An event appears there
	// only after State shows its change.
	Events() *events.Ring
	// AsOf returns an instant by the clock: State has everything that was
	// acknowledged before it. Read it before State. It is false until the
	// replica has caught up with the cell since its start.
	AsOf() (at time.Duration, known bool)
	// PromisedBefore returns the instant from which a master of that raft
	// term waits.
	PromisedBefore(term uint64) time.Duration
	// Transfer makes another replica the leader; any if to is empty.
	Transfer(ctx context.Context, to string) error
}

// Membership is what a master shows of its cell. *replica.Replica implements
// it.
type Membership interface {
	members.Cell
	Leader() string // id of the leader as far as known here, or empty
	Members() []membership.MemberStatus
	URL(id string) string
	Metrics() metric.Set
	Promise() (to string, remaining time.Duration, ok bool)
}

// Options configure a master. Fields without a stated default are required.
type Options struct {
	Cell, ID, Version string
	LeaseTerm         time.Duration // carried by each batch
	Drift             lease.Drift
	Clock             func() time.Duration // never steps, runs during suspend
	// Patience is how long a call waits for a master before it is refused;
	// default 1.2 s. That covers most elections. A replica that is cut off
	// from the others delays no call for longer: its caller asks another
	// replica.
	Patience time.Duration
	// StaleFor is for how long, while access is on, this replica answers
	// from its own state after it has last caught up with a master; default
	// 1 min.
	StaleFor time.Duration
	Quotas   Quotas // none unless set
	Level    uint64 // the highest that this release knows; default state.Level
	// FoundToken is the SHA-256 of the root's secret with which a cell is
	// founded with access on; nil to found it with access off. An existing
	// cell ignores it.
	FoundToken *[32]byte
	// FoundedWithAccess reports that the founders have agreed to have
	// access on. Without a FoundToken this master then serves no calls
	// until access is on.
	FoundedWithAccess bool
	// AutoReplace is how long a member's directory must be silent before
	// another directory that answers in its place replaces it
	// automatically; 0 for never.
	AutoReplace time.Duration
	// Progress records the steps of an office, and detects steps that hang:
	// an office ends when a step takes longer than the lease. The default
	// is a watch of its own.
	Progress *progress.Watch
	// Happened, if not nil, is called for the audit log with each change of
	// mastership and of the members, and with a founding with access on. It
	// must not block.
	Happened func(Notification)
	Logger   zerolog.Logger
}

// Notification is an event for the audit log that no call caused.
type Notification struct {
	Event           string // one of those below
	Member          string // the member concerned
	Epoch, Revision uint64
}

// The events of a Notification.
const (
	Elected       = "master_elected" // this replica is the master
	Ended         = "master_ended"   // this replica is no longer the master
	AccessFounded = "access_founded" // the cell was founded with access on, by this replica
	MemberAdded   = "member_added"   // as a nonvoter
	MemberVotes   = "member_votes"   // became a voter
	MemberRemoved = "member_removed"
	MemberDemoted = "member_demoted" // became a nonvoter
	MemberMoved   = "member_moved"   // to another address
)

var memberEvents = map[membership.Change]string{membership.AddNonvoter: MemberAdded, membership.MakeVoter: MemberVotes, membership.RemoveMember: MemberRemoved,
	membership.DemoteMember: MemberDemoted, membership.MoveMember: MemberMoved}

func (o *Options) happened(log Log, event, member string, epoch uint64) {
	if o.Happened != nil {
		o.Happened(Notification{event, member, epoch, log.State().Revision})
	}
}

// leaseMS returns the lease's term as a batch carries it.
func (o *Options) leaseMS() int64 { return o.LeaseTerm.Milliseconds() }
