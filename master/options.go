package master

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/internal/progress"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// Log is the replicated log as an office needs it. *replica.Replica is one; the
// tests have one in memory.
type Log interface {
	// Leading reports whether this replica leads, and in which raft term.
	Leading() (term uint64, ok bool)
	// Changed is closed at the next change of leadership.
	Changed() <-chan struct{}
	// Barrier returns when everything committed before is applied here.
	Barrier(context.Context) error
	// Submit hands a batch over; the returned function waits for its outcome.
	Submit(state.Batch) func() (*state.Outcome, error)
	// Due is a command that the log itself is to be given with a batch, if
	// there is one: a mark or a sum of a checksum of the state. It is told
	// once.
	Due() (state.Command, bool)
	// State is the state after the last entry applied here.
	State() *state.State
	// Events are the last ones of what was applied here. They are told after State
	// shows them.
	Events() *events.Ring
	// AsOf is an instant, by the clock: State has everything that was acknowledged before
	// it. Read it before State. It is false until the replica has caught up with the cell
	// since its start.
	AsOf() (at time.Duration, known bool)
	// PromisedBefore is the instant from which a master of that raft term
	// waits.
	PromisedBefore(term uint64) time.Duration
	// Transfer makes another replica the leader; any where to is empty.
	Transfer(ctx context.Context, to string) error
}

// Membership is what a master shows of its cell. *replica.Replica is one.
type Membership interface {
	Leader() string // id of the leader as far as known here, or empty
	Members() []membership.MemberStatus
	// Membership is the latest configuration, ChangeMember makes one change of
	// it (see package replica), and Ask asks a member how it is,
	// by its name or its server id.
	Membership() (membership.Membership, error)
	ChangeMember(ctx context.Context, since uint64, change membership.Change, s membership.MemberStatus) error
	Ask(ctx context.Context, id string) (admission.Card, error)
	CellID() string
	Directory() string
	URL(id string) string
	Health() membership.Health
	Metrics() metric.Set
	Promise() (to string, remaining time.Duration, ok bool)
}

// Options say how a master runs. Fields without a stated default are required.
type Options struct {
	Cell, ID, Version string
	LeaseTerm         time.Duration // carried by each batch
	Drift             lease.Drift
	Clock             func() time.Duration // never steps, goes on during suspend
	// Patience is how long a call waits for a master before it is told that
	// there is none; default 1.2 s. That rides out most elections, and a replica that
	// is cut off from the others holds no call for longer: its caller asks another one.
	Patience time.Duration
	// StaleFor is for how long after it has last caught up with a master this replica
	// still answers by its own state while access is on; default 1 min.
	StaleFor time.Duration
	Quotas   Quotas // none unless set
	Level    uint64 // the highest that this release knows; default state.Level
	// FoundToken is the SHA-256 of the root's secret with which a cell is founded with
	// access on; nil to found it with access off. A cell that is there already takes no
	// notice of it.
	FoundToken *[32]byte
	// FoundedWithAccess says that the founders have agreed to have access on. Without
	// a FoundToken such a cell is served by nobody before access is on.
	FoundedWithAccess bool
	// AutoReplace is for how long a member's directory is not heard of before another
	// one that answers in its place gets it, unasked; 0 for never.
	AutoReplace time.Duration
	// Progress is told of the steps of an office, and shows those that hang: an office
	// ends with one that takes longer than the lease. Default a watch of its own.
	Progress *progress.Watch
	// Happened, where it is not nil, is told of each change of mastership and of the
	// members, and of a founding with access on, for the audit log. It must not block.
	Happened func(Happening)
	Logger   zerolog.Logger
}

// Happening is what an audit is to know of, and no call has done.
type Happening struct {
	Event           string // one of those below
	Member          string // whom it is about
	Epoch, Revision uint64
}

// What happens.
const (
	Elected       = "master_elected" // this replica is the master
	Ended         = "master_ended"   // and is not any more
	AccessFounded = "access_founded" // the cell was founded with access on, by this replica
	MemberAdded   = "member_added"   // as a nonvoter
	MemberVotes   = "member_votes"   // from now on
	MemberRemoved = "member_removed"
	MemberDemoted = "member_demoted" // has no vote from now on
	MemberMoved   = "member_moved"   // to another address
)

var memberEvents = map[membership.Change]string{membership.AddNonvoter: MemberAdded, membership.MakeVoter: MemberVotes, membership.RemoveMember: MemberRemoved,
	membership.DemoteMember: MemberDemoted, membership.MoveMember: MemberMoved}

func (o *Options) happened(log Log, event, member string, epoch uint64) {
	if o.Happened != nil {
		o.Happened(Happening{event, member, epoch, log.State().Revision})
	}
}

// leaseMS is the lease as a batch carries it.
func (o *Options) leaseMS() int64 { return o.LeaseTerm.Milliseconds() }
