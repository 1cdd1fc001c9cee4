package master

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/master/internal/batch"
	"github.com/stoutlock/stout/master/internal/members"
	"github.com/stoutlock/stout/master/internal/quota"
	"github.com/stoutlock/stout/replica/state"
)

// office holds everything volatile that a master knows in one term of office.
// It is made when the term begins, and dropped when it ends. The package
// comment explains its mutexes.
type office struct {
	proposer
	epoch     uint64
	term      uint64 // raft term
	logger    zerolog.Logger
	vitals    *vitals
	lapse     time.Duration  // of the lease, not logged yet; only the goroutine that calls accepted uses it
	lapses    atomic.Uint64  // how often the lease has lapsed
	quotas    *quota.Ledger  // has a mutex of its own
	endings   endings        // has a mutex of its own
	deletions endings        // of directories; has a mutex of its own
	turns     turns          // has a mutex of its own
	table     *members.Table // nil in tests of parts

	mu         sync.Mutex // guards the five fields below and everything in them
	sessions   sessions
	waiters    waiters
	delays     delays
	deadlines  deadlines
	rechecking rechecking

	endOnce sync.Once
	isOver  atomic.Bool   // the office has ended, or is about to
	done    chan struct{} // closed when the office has ended
}

// makeOffice makes an office that opened at an instant, with only the totals
// that quotas need. Waits numbered up to openSeq are of earlier offices.
func makeOffice(opts *Options, log Log, opened time.Duration, openSeq uint64, v *vitals, r *quota.Refusals) *office {
	o := &office{
		proposer: proposer{opts: opts, log: log}, vitals: v, logger: opts.Logger,
		quotas: quota.New(&opts.Quotas, r, log.State), done: make(chan struct{}),
		turns: turns{log: log},
	}
	o.deadlines.wakeup = wait.NewWakeup()
	o.delays = delays{drift: opts.Drift, deadlines: &o.deadlines, inForce: map[string]delay{}}
	o.sessions = sessions{opened: opened, drift: opts.Drift, lease: &o.lease, deadlines: &o.deadlines, byID: map[string]*session{}}
	o.waiters = waiters{openSeq: openSeq, log: log, sessions: &o.sessions, byHandle: map[state.HandleKey]*acquires{}}
	return o
}

// newOffice fills the office from the state that its opening entry left. Each
// session gets one whole ttl, and each lock-delay starts anew, both counted
// from now.
func (m *Master) newOffice(term uint64, entry *state.Outcome, p time.Duration) *office {
	opened := m.opts.Clock()
	s := m.log.State() // nothing is accepted after the opening entry before the batcher runs
	o := makeOffice(&m.opts, m.log, opened, s.Seq, m.vitals, &m.refused)
	o.epoch, o.term, o.table = entry.Epoch, term, m.table
	o.logger = o.logger.With().Uint64("epoch", o.epoch).Logger()
	o.lease.Extend(p, m.opts.LeaseTerm, opened, m.opts.Drift)
	o.vitals.offices.Add(1)
	for v := range s.Sessions("") {
		o.sessions.add(v, opened)
	}
	o.sessions.inherit(s)
	for w := range s.Waits() {
		if !w.Keep {
			o.waiters.adopt(w)
		}
	}
	for l := range s.Locks("", "") {
		if l.DelayID != 0 {
			o.delays.start(l.Path, l.DelayID, l.DelayMS, opened)
		}
	}
	o.batcher = batch.New(batch.Options{
		Epoch: o.epoch, LeaseMS: m.opts.leaseMS(), Clock: m.opts.Clock, Submit: m.log.Submit, Due: m.log.Due,
		Queued: m.vitals.queued, Replied: m.vitals.replied,
		Accepted: o.accepted, Failed: o.end, Progress: m.opts.Progress,
	})
	go func() {
		o.keepLease()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.sessions.wake() // the office has ended
	}()
	go o.keepDeadlines()
	if s.AccessOn && s.WaitCount() > 0 { // an earlier office may not have finished the check
		o.mu.Lock()
		o.recheckBelow("/")
		o.mu.Unlock()
	}
	go o.found()
	return o
}

// accepted receives every batch of this office, in log order, before any caller
// sees its result. It renews the lease and applies the batch's changes to the
// office.
func (o *office) accepted(p time.Duration, out *state.Outcome) {
	now := o.now()
	o.vitals.committed.Observe(now - p)
	if v := o.lease.View(now); !v.Dropped { // entries under way when the office was given up renew nothing
		o.vitals.margin.Observe(v.Remaining)
	}
	o.lapse += o.lease.Extend(p, o.opts.LeaseTerm, now, o.opts.Drift)
	if o.lapse > 0 && o.leaseValid() {
		o.logger.Warn().Dur("lapsed_ms", o.lapse).Msg("master lease regained: the sessions get the lapse back")
		o.lapse = 0
	}
	if len(out.Results) == 0 {
		return
	}
	for _, expired := range o.follow(out) {
		expired.Msg("session expired: it was not kept alive")
	}
}

// follow applies a batch's changes to the office, all at once. It returns log
// entries for the sessions that expired, because nothing is logged under the
// mutex.
func (o *office) follow(out *state.Outcome) (expired []*zerolog.Event) {
	now := o.now()
	o.quotas.Follow(out.Changes) // first: calls that are woken below may need what is free now
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range out.Changes {
		o.vitals.happened(c)
		if ended, ok := c.(state.SessionEnded); !ok {
			o.changed(c, now)
		} else if entry := o.sessionEnded(ended); entry != nil {
			expired = append(expired, entry)
		}
	}
	return expired
}

// changed handles one change other than a session's end. o.mu is held.
func (o *office) changed(c state.Change, now time.Duration) {
	switch c := c.(type) {
	case state.SessionOpened:
		o.sessions.add(c.Session, now)
	case state.Granted:
		if c.Wait != nil {
			o.waiters.granted(c.Hold, c.Wait)
		}
	case state.Withdrawn:
		o.waiters.withdrawn(c.Wait)
	case state.Released:
		o.sessions.released(c.Hold)
	case state.DelayBegan:
		o.delays.start(c.Path, c.ID, c.MS, now)
	case state.DelayEnded:
		o.delays.ended(c.Path, c.ID)
	case state.Expelled:
		o.sessions.expelled(c)
	case state.HoldLost:
		o.sessions.lost(c)
	case state.AccessChanged:
		o.recheckBelow(c.Below)
	}
}

// end closes the office at once: mastership is lost, or may be. Calls under way
// end with outcome_unknown.
func (o *office) end(why error) {
	o.endOnce.Do(func() {
		o.isOver.Store(true) // before any call of the office ends
		o.lease.Drop()
		o.batcher.Close(why)
		close(o.done)
		o.logger.Info().AnErr("why", why).Msg("office ended: this replica is no longer the master")
		o.opts.happened(o.log, Ended, o.opts.ID, o.epoch)
	})
}

// resign closes the office in good order. It drops the lease permanently, lets
// the calls under way end, and proposes the closing entry as its last act, so
// that the successor need not wait. It waits for the calls, and then for the
// entry, for as long as patience and ctx allow: both hang with this replica's
// disk. Calls that take longer end with outcome_unknown, or the state refuses
// them behind the closing entry. That entry counts once it is in the logs of a
// majority.
func (o *office) resign(ctx context.Context, patience time.Duration, why error) {
	defer o.end(why)
	o.lease.Drop()
	draining, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = o.batcher.Drain(draining, why)
	o.isOver.Store(true) // as in end
	o.batcher.Close(why)
	ctx, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	faultpoint.Hit(faultpoint.OfficeResigned)
	outcome := o.log.Submit(state.Batch{Epoch: o.epoch, LeaseMS: o.opts.leaseMS(),
		Commands: []state.Command{{Time: time.Now().UnixNano(), Operation: &state.CloseOffice{}}}})
	_, _ = wait.Get(ctx, outcome) // unless it was accepted, the successor has to wait
}
