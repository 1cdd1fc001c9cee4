package replica

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/progress"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/events"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/raftlogger"
	"github.com/stoutlock/stout/replica/raftstore"
	"github.com/stoutlock/stout/replica/rafttransport"
	"github.com/stoutlock/stout/replica/state"
)

// Replica is a running member of the cell. Its methods are safe for concurrent
// use.
type Replica struct {
	opts       Options
	raft       *raft.Raft
	fsm        *fsm
	stores     datadir.Stores
	peers      Peers
	promises   *lease.Promises
	disk       *raftstore.Stores         // stores, corrected for the library
	submitting *progress.Step            // until the library's main loop has accepted what was submitted
	wire       rafttransport.Transport   // the transport, corrected for the library
	library    atomic.Pointer[raft.Raft] // raft, for the library's own goroutines; nil until it has started

	vitals    *vitals
	snapshots *snapshotting
	changing  atomic.Int32 // changes of the membership without an outcome yet
	committed committed    // membership
	roster    roster       // the members known here, and the removed ones

	notingSnapshot sync.Mutex

	progress atomic.Uint64         // bytes of snapshots, written and read
	lacking  atomic.Pointer[error] // see lost

	failOnce sync.Once
	failed   chan error

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change of leadership
	transfer time.Duration // when the library began to refuse entries because of a transfer; 0 = it does not
	quit     chan struct{}
	watching sync.WaitGroup
	refused  chan *raft.RequestPreVoteRequest // candidates that were refused, see campaignInstead
}

// Start starts the replica of a member. It takes over the stores and the
// transport, and closes them even when it fails.
func Start(o Options, s datadir.Stores, p Peers) (*Replica, error) {
	o.setDefaults()
	r := &Replica{
		opts: o, stores: s, peers: p, promises: lease.NewPromises(o.Clock()),
		failed: make(chan error, 1), changed: make(chan struct{}), quit: make(chan struct{}), vitals: newVitals(),
		refused: make(chan *raft.RequestPreVoteRequest, 1),
	}
	r.snapshots = newSnapshotting(o.Logger, o.Clock, r.leads, &r.progress)
	r.fsm = &fsm{promises: r.promises, clock: o.Clock, fail: r.fail, leave: runtime.Goexit}
	r.fsm.took, r.fsm.followers, r.fsm.applied = r.vitals.applying, r.vitals.followers, r.vitals.applied
	r.submitting, r.fsm.step = o.Progress.Step("raft"), o.Progress.Step("apply")
	r.fsm.current.Store(state.New())
	r.fsm.publisher = publisher{leads: r.leadsIn, events: events.New(o.EventHistory, o.EventHistoryBytes, 0), advanced: make(chan struct{}, 1)}
	r.fsm.publisher.fresh.clock, r.fsm.publisher.fresh.present = o.Clock, r.term
	r.fsm.sums = newChecksums(o.Clock, r.diverged)
	r.fsm.configured = r.noteCommitted
	err := o.check()
	if err == nil {
		err = r.orFailure(r.startRaft)
	}
	if err != nil {
		return nil, errors.Join(err, p.Transport.Close(), s.Close(), p.host.close())
	}
	if p.host != nil {
		p.host.running.Store(r)
	}
	return r, nil
}

// orFailure returns the error of a step of the start, or the failure that ended
// its goroutine: a refused write, or an entry that cannot be read.
func (r *Replica) orFailure(step func() error) (err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = errFailed
		err = step()
	}()
	<-ended
	if errors.Is(err, errFailed) {
		select {
		case err = <-r.failed:
		default:
		}
	}
	return err
}

func (r *Replica) startRaft() error {
	if err := r.correct(); err != nil {
		return err
	}
	notify := make(chan bool, 16)
	conf := r.config(notify)
	if err := r.found(conf); err != nil {
		return err
	}
	if err := r.remembers(); err != nil {
		return err
	}
	r.roster.begin(r.stores.Identity)
	var err error
	if r.fsm.sums.before, err = r.disk.Logs.LastIndex(); err == nil {
		r.fsm.publisher.fresh.before, err = r.lastStored()
	}
	if err != nil {
		return fmt.Errorf("data directory %s: %w", r.opts.DataDir, err)
	}
	if r.raft, err = raft.NewRaft(conf, r.fsm, steppedStore{r.disk.Logs, r.submitting}, r.disk.Votes, snapshotStore{r.disk.Snapshots, r.snapshots}, r.wire); err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	r.library.Store(r.raft)
	r.watching.Go(func() { r.wire.Notify(r.fsm.publisher.advanced, r.quit) })
	r.watching.Go(func() { r.wire.Pass(r.self(), r.servers, r.quit) })
	r.watch(notify)
	r.watching.Go(r.suspectSilence)
	r.watching.Go(r.keepRoster)
	if r.peers.Ask != nil {
		r.watching.Go(r.watchReplacement)
	}
	return nil
}

// correct wraps stores and transport in the corrections that the library needs.
func (r *Replica) correct() (err error) {
	self := r.self()
	r.disk, err = raftstore.New(r.stores, raftstore.Options{
		Leading: r.leads, Clock: r.opts.Clock, Fail: r.fail, Applied: r.applied, Lost: r.lost, Promises: r.promises, Took: r.vitals.stored, Disk: r.vitals.disk,
		SnapshotInterval: r.opts.SnapshotInterval,
		Elsewhere:        func(index, term uint64) bool { return r.wire.Elsewhere(self, r.servers(), index, term) },
	})
	if err != nil {
		return fmt.Errorf("data directory %s: %w", r.opts.DataDir, err)
	}
	r.opts.Progress.Add("disk", r.disk.WritingFor)
	r.fsm.waitCommitted, r.fsm.landed = r.disk.WaitCommitted, r.disk.Stored
	r.wire = rafttransport.New(r.peers.Transport, rafttransport.Options{
		Leading: r.leads, Leads: r.leadsIn, Mute: r.hangs, IsStuckCandidate: r.clingsAsCandidate, RefusedVote: r.refusedVote,
		CommitLimit: r.fsm.publisher.publishedTo, Acknowledged: r.disk.Acknowledged, Committed: r.fsm.publisher.committed, Watched: r.fsm.publisher.events.Watched, Forgot: r.logForgotten,
		Refuse: r.lostChanges, Agrees: r.disk.Agrees, Compacted: r.disk.Compacted, Refused: r.logLost, Sent: r.snapshots.sent, Fail: r.fail,
	})
	return nil
}

// clingsAsCandidate reports whether the library campaigns although it knows a
// leader.
func (r *Replica) clingsAsCandidate() (term uint64, clings bool) { return follows(r.raft, r.self()) }

// candidacy is the library's view of its campaign, while its main loop
// continues.
type candidacy interface {
	State() raft.RaftState
	CurrentTerm() uint64
	LeaderWithID() (raft.ServerAddress, raft.ServerID)
}

// follows reports whether a candidate has another replica as its leader, and in
// which term. It reads the state last: a candidate that wins in between names
// itself as the leader, and must not be reported as following another. If the
// term ends after it was read, other replicas ignore the message.
func follows(c candidacy, self raft.ServerID) (term uint64, follows bool) {
	at, leader := c.LeaderWithID()
	term = c.CurrentTerm()
	return term, at != "" && leader != self && c.State() == raft.Candidate
}

// hangs returns an error if a current step takes too long for a leader: a write
// to the log, an entry that is applied, an answer, a mutex. The replica then
// sends nothing, so that the others elect a leader even if its own goroutines
// hang.
func (r *Replica) hangs() error {
	if h := r.opts.Progress.Hangs(r.opts.MasterLease); h != nil {
		return h
	}
	return nil
}

// steppedStore is the log for the library's main loop. The loop has accepted
// what was submitted when the entry is stored, or submitted to the disk.
type steppedStore struct {
	raft.LogStore
	step *progress.Step
}

func (t steppedStore) StoreLogs(logs []*raft.Log) error {
	defer t.step.End()
	return t.LogStore.StoreLogs(logs)
}

// servers returns the servers of the library's latest configuration, committed
// or not.
func (r *Replica) servers() []raft.Server { return r.raft.GetConfiguration().Configuration().Servers }

// leads reports whether the replica leads. It is for the library's main loop,
// which alone makes a replica the leader.
func (r *Replica) leads() bool {
	library := r.library.Load()
	return library != nil && library.State() == raft.Leader
}

// leadsIn reports whether the replica leads in a raft term.
func (r *Replica) leadsIn(term uint64) bool {
	library := r.library.Load()
	return library != nil && library.State() == raft.Leader && library.CurrentTerm() == term
}

// term returns Raft's current term at this replica.
func (r *Replica) term() uint64 {
	if library := r.library.Load(); library != nil {
		return library.CurrentTerm()
	}
	return 0
}

func (r *Replica) config(notify chan bool) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = r.self()
	conf.HeartbeatTimeout = r.opts.libraryTimeout()
	conf.ElectionTimeout = max(r.opts.ElectionTimeout, conf.HeartbeatTimeout)
	conf.LeaderLeaseTimeout = r.opts.HeartbeatTimeout // heartbeats wait behind a follower's disk, see package rafttransport
	conf.CommitTimeout = min(50*time.Millisecond, r.opts.HeartbeatTimeout/4)
	conf.MaxAppendEntries = rafttransport.MaxAppendEntries
	conf.BatchApplyCh = true
	conf.SnapshotThreshold = r.opts.SnapshotThreshold
	conf.SnapshotInterval = r.opts.SnapshotInterval
	conf.TrailingLogs = r.opts.TrailingLogs
	conf.NoLegacyTelemetry = true
	conf.NotifyCh = notify
	conf.Logger = raftlogger.New(r.opts.Logger)
	return conf
}

// Failed delivers the first fault that must end the process, such as a refused
// write to the disk, a log entry that this release cannot read, or a state that
// differs from the master's.
func (r *Replica) Failed() <-chan error { return r.failed }

func (r *Replica) fail(err error) {
	r.failOnce.Do(func() { r.failed <- fmt.Errorf("replica %s: %w", r.opts.ID, err) })
}

// Close stops the replica: Raft and its transport first, then the store. It is
// called once.
func (r *Replica) Close() error {
	err := r.raft.Shutdown().Error()
	close(r.quit)
	r.watching.Wait()
	r.disk.Close()
	r.fsm.sums.work.Wait()
	return errors.Join(err, r.peers.host.close(), r.stores.Close())
}

// Submit hands a batch to Raft and returns at once. The returned function waits
// for the outcome and must be called once. Batches that one goroutine submits
// in sequence keep their order. The error is membership.ErrNotApplied or
// membership.ErrUnknown.
func (r *Replica) Submit(b state.Batch) func() (*state.Outcome, error) {
	data, err := b.Encode()
	if err == nil && len(data) > membership.MaxEntryBytes {
		err = fmt.Errorf("a batch has %d bytes; an entry may have at most %d", len(data), membership.MaxEntryBytes)
	}
	if err != nil {
		return func() (*state.Outcome, error) { return nil, fmt.Errorf("%w: %w", membership.ErrNotApplied, err) }
	}
	r.submitting.Continue()
	future := r.raft.ApplyLog(raft.Log{Data: data, Extensions: raftstore.Note(r.applied())}, rafttransport.Timeout)
	return func() (*state.Outcome, error) {
		if err := future.Error(); err != nil {
			r.submitting.End()
			return nil, r.classify(err)
		}
		out, ok := future.Response().(*state.Outcome)
		if !ok {
			return nil, fmt.Errorf("%w: %v", membership.ErrUnknown, future.Response())
		}
		return out, nil
	}
}

// classify separates the library's errors: some rule out an effect, the others
// do not.
func (r *Replica) classify(err error) error {
	if errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		r.stuck()
		return fmt.Errorf("%w: %w", membership.ErrNotApplied, err)
	}
	if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrEnqueueTimeout) {
		return fmt.Errorf("%w: %w", membership.ErrNotApplied, err)
	}
	return fmt.Errorf("%w: %w", membership.ErrUnknown, err)
}

// stuck fails the replica when the library still refuses entries because of a
// transfer that must be long over. The library can forget to end a transfer
// (hashicorp/raft issue 696), and only a restart helps then.
func (r *Replica) stuck() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opts.Clock()
	if r.transfer == 0 {
		r.transfer = now
	}
	if bound := 2*r.opts.ElectionTimeout + 2*rafttransport.Timeout; now-r.transfer > bound {
		r.fail(fmt.Errorf("a transfer of mastership has not ended for %v; restart the replica", now-r.transfer))
	}
}

// Barrier returns when everything that was committed before the call has been
// applied here. It fails on a replica that does not lead.
func (r *Replica) Barrier(ctx context.Context) error {
	began := r.opts.Clock()
	future := r.raft.Barrier(rafttransport.Timeout)
	select {
	case err := <-wait.Err(future.Error):
		if err != nil {
			return r.classify(err)
		}
		r.fsm.publisher.proposed(began)
		r.mu.Lock()
		r.transfer = 0
		r.mu.Unlock()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Follow makes this replica give leadership away whenever it leads, until
// Close. Its master has stopped, so the cell has no master while it leads; but
// it still takes part in elections. The attempts become less frequent: two such
// replicas may have only each other to transfer to.
func (r *Replica) Follow() {
	r.watching.Go(func() {
		pause := r.opts.HeartbeatTimeout / 10
		for {
			changed, again := r.Changed(), make(<-chan time.Time)
			if _, leads := r.Leading(); leads {
				ctx, cancel := context.WithTimeout(context.Background(), r.opts.ElectionTimeout)
				_ = r.Transfer(ctx, "") // it fails while no follower is up to date
				cancel()
				again = time.After(pause)
				pause = min(2*pause, r.opts.HeartbeatTimeout)
			}
			select {
			case <-changed:
			case <-again:
			case <-r.quit:
				return
			}
		}
	})
}

// Transfer makes the named replica the leader, or the most suitable one if to
// is empty. It returns when the library has made the transfer or given up. By
// itself the library may choose a replica that is down.
func (r *Replica) Transfer(ctx context.Context, to string) error {
	server, ok := raft.Server{}, false
	if to != "" {
		var err error
		if server, err = r.voter(to); err != nil {
			return err
		}
	} else if server, ok = r.wire.Target(r.self(), r.servers(), r.term()); !ok {
		return errors.New("no other replica that votes has answered this one in its term")
	}
	return wait.Do(ctx, r.raft.LeadershipTransferToServer(server.ID, server.Address).Error)
}
