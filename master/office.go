package master

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/async"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/cell"
	"github.com/stoutlock/stout/replica/state"
)

// office is one term of office: everything volatile that a master knows. It is
// made when the office opens and dropped when it ends; nothing in it outlives
// that.
type office struct {
	epoch   uint64
	term    uint64 // raft term
	opened  time.Duration
	openSeq uint64 // waits numbered up to here are of earlier offices
	opts    *Options
	log     Log
	logger  zerolog.Logger
	lease   lease.Master
	refused *refusals
	vitals  *vitals
	lapse   time.Duration // not told to the log yet; of the goroutine that calls accepted
	batcher *batcher

	mu       sync.Mutex
	sessions map[string]*session
	pairs    map[pairKey]*pair
	delays   map[string]delay
	openings map[opening]*share
	endings  endings
	use      amount // of the whole cell; see share.go
	due      agenda

	endOnce sync.Once
	done    chan struct{} // closed when the office has ended
	wake    chan struct{} // capacity 1: the agenda's first entry may have changed
}

// newOffice fills the office from the state that its opening entry left: each
// session gets one whole ttl, each lock-delay starts anew, both counted from now.
func (m *Master) newOffice(term uint64, opened *state.Outcome, p time.Duration) *office {
	o := &office{
		epoch: opened.Epoch, term: term, opened: m.opts.Clock(), opts: &m.opts, log: m.log, refused: &m.refused, vitals: m.vitals,
		logger:   m.opts.Logger.With().Uint64("epoch", opened.Epoch).Logger(),
		sessions: map[string]*session{}, pairs: map[pairKey]*pair{}, delays: map[string]delay{},
		openings: map[opening]*share{}, done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	o.lease.Extend(p, m.opts.LeaseTerm, o.opened, m.opts.Drift)
	o.vitals.offices.Add(1)
	s := m.log.State() // nothing is accepted after the opening entry before the batcher runs
	o.openSeq = s.Seq
	for v := range s.Sessions("") {
		o.addSession(v, o.opened)
		o.use.add(amountOf(v), 1)
	}
	o.inherit(s)
	for w := range s.Waits() {
		o.claimed(pairKey{w.Session, w.Path, w.Handle}, true)
		if !w.Keep {
			o.orphan(w)
		}
	}
	for l := range s.Locks("", "") {
		if l.DelayID != 0 {
			o.startDelay(l.Path, l.DelayID, l.DelayMS, o.opened)
		}
	}
	o.batcher = newBatcher(batcherOptions{
		Epoch: o.epoch, LeaseMS: m.opts.leaseMS(), Clock: m.opts.Clock, Submit: m.log.Submit, Due: m.log.Due,
		Accepted: o.accepted, Failed: o.end,
	})
	go o.keepLease()
	go o.keepAgenda()
	return o
}

// accepted is told of every batch of this office, in log order, before any
// caller is: it renews the lease and passes the news on.
func (o *office) accepted(p time.Duration, out *state.Outcome) {
	now := o.opts.Clock()
	o.vitals.renewed(p, now, o.lease.View(now))
	o.lapse += o.lease.Extend(p, o.opts.LeaseTerm, now, o.opts.Drift)
	if o.lapse > 0 && o.lease.Valid(o.opts.Clock()) {
		o.logger.Warn().Dur("lapsed_ms", o.lapse).Msg("master lease regained: the sessions get the lapse back")
		o.lapse = 0
	}
	if len(out.Results) == 0 {
		return
	}
	for _, expired := range o.takeNote(out) {
		expired.Msg("session expired: it was not kept alive")
	}
}

// takeNote takes note of what a batch came to, all at once. The sessions that
// expired are returned for the log, which is not written under the mutex.
func (o *office) takeNote(out *state.Outcome) (expired []*zerolog.Event) {
	now := o.opts.Clock()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range out.Changes {
		o.vitals.happened(c)
		if ended, ok := c.(state.SessionEnded); !ok {
			o.happened(c, now)
		} else if entry := o.endSession(ended); entry != nil {
			expired = append(expired, entry)
		}
	}
	return expired
}

// happened takes note of one change other than a session's end. o.mu is held.
func (o *office) happened(c state.Change, now time.Duration) {
	switch c := c.(type) {
	case state.SessionOpened:
		o.addSession(c.Session, now)
		o.sessionOpened(c.Session)
	case state.Granted:
		if c.Wait != nil {
			o.granted(c.Hold, c.Wait)
		} else {
			o.claimed(pairKey{c.Hold.Session, c.Hold.Path, c.Hold.Handle}, false)
		}
	case state.Enqueued:
		o.claimed(pairKey{c.Wait.Session, c.Wait.Path, c.Wait.Handle}, true)
	case state.Withdrawn:
		o.withdrawn(c.Wait)
	case state.Released:
		o.released(c.Hold)
	case state.DelayBegan:
		o.startDelay(c.Path, c.ID, c.MS, now)
	case state.DelayEnded:
		if o.delays[c.Path].id == c.ID {
			delete(o.delays, c.Path)
			o.use.add(delayAmount(c.Path), -1)
		}
	}
}

// fromMemory is what an operation comes to, where that changes nothing: it reads,
// and then checks the lease. Without that the log decides.
func (o *office) fromMemory(op state.Operation) (state.Result, bool) {
	if r, changes := o.log.State().Would(op); !changes && r != nil && o.lease.Valid(o.opts.Clock()) {
		return r, true
	}
	return nil, false
}

// propose puts an operation through the log and waits for its result. The error
// is a *lockapi.Error: no_master where it certainly has no effect, outcome_unknown
// where it may have.
func (o *office) propose(op state.Operation) (state.Result, error) { return o.begin(op)() }

// resultOf is a result of the type that the operation names.
func resultOf[R any](r state.Result, err error) (R, error) {
	got, _ := r.(R)
	return got, err
}

// begin is propose in two steps: the operation has its place in the log's order
// when begin returns; the function that it returns waits for the result and is
// to be called once.
func (o *office) begin(op state.Operation) func() (state.Result, error) {
	if s := o.log.State(); !s.Knows(op) {
		return func() (state.Result, error) { return nil, errLevel(op, s.Level) }
	}
	wait := o.batcher.Begin(state.Command{Time: time.Now().UnixNano(), Operation: op})
	return func() (state.Result, error) { return o.outcome(wait()) }
}

// outcome puts what became of an operation into the errors of the contract.
func (o *office) outcome(r state.Result, err error) (state.Result, error) {
	switch {
	case err == nil && r == nil:
		return r, errNoMaster("the office ended before the call took effect")
	case err == nil:
		return r, nil
	case errors.Is(err, cell.ErrNotApplied):
		return r, errNoMaster("mastership was lost before the call took effect")
	}
	return r, errUnknown()
}

func errUnknown() *lockapi.Error {
	return lockapi.Errorf(lockapi.CodeOutcomeUnknown,
		"mastership was lost while the call was under way: it may or may not have taken effect; the same call may be sent again safely")
}

// keepLease renews the lease every quarter of its term in which nothing else
// has, and tells the log when it lapses.
func (o *office) keepLease() {
	t := stoppedTimer()
	defer t.Stop()
	for lapsed := false; ; {
		v := o.lease.View(o.opts.Clock())
		if !v.Held && !v.Dropped && !lapsed {
			o.logger.Warn().Dur("renewed_ago_ms", v.Renewed).Msg("master lease lapsed: no majority has stored an entry in time")
		}
		lapsed = !v.Held
		if v.Renewed > max(stalledAfter, o.opts.LeaseTerm) {
			o.end(fmt.Errorf("nothing was committed for %v", v.Renewed))
			return
		}
		t.Reset(o.renewal(v))
		select {
		case <-o.done:
			return
		case <-t.C:
		}
	}
}

// renewal proposes an empty batch if it is time for one, and returns how long it
// is to the next look.
func (o *office) renewal(v lease.View) time.Duration {
	quarter := o.opts.LeaseTerm / 4
	wait := quarter - v.Renewed
	if wait <= 0 {
		o.batcher.Renew()
		wait = quarter
	}
	if v.Held {
		wait = min(wait, v.Remaining+1) // to see a lapse when it begins
	}
	return wait
}

// end closes the office at once: mastership is lost, or may be. Calls under way
// learn that their outcome is unknown.
func (o *office) end(why error) {
	o.endOnce.Do(func() {
		o.lease.Drop()
		o.batcher.Close(why)
		close(o.done)
		o.logger.Info().AnErr("why", why).Msg("office ended: this replica is no longer the master")
	})
}

// resign closes the office in good order: it drops the lease for good, lets the
// calls under way end, and proposes the closing entry as its last act, so that
// the successor need not wait; ctx bounds it all.
func (o *office) resign(ctx context.Context, why error) {
	defer o.end(why)
	o.lease.Drop()
	if err := o.batcher.Drain(ctx, why); err != nil {
		return
	}
	o.batcher.Close(why)
	wait := o.log.Submit(state.Batch{Epoch: o.epoch, LeaseMS: o.opts.leaseMS(),
		Commands: []state.Command{{Time: time.Now().UnixNano(), Operation: &state.CloseOffice{}}}})
	_, _ = async.Get(ctx, wait) // unless it was accepted, the successor has to wait
}
