package master

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/internal/progress"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/members"
	"github.com/stoutlock/stout/master/internal/quota"
	"github.com/stoutlock/stout/replica/state"
)

const (
	// retryOpening is the pause after a failed attempt to open an office.
	retryOpening = 20 * time.Millisecond
	// stalledAfter ends an office that commits nothing for that long, so
	// that its callers do not wait forever.
	stalledAfter = 10 * time.Second
)

// Master serves the cell's calls while its replica is the master in office;
// otherwise it knows where to send them. Its methods are safe for concurrent
// use. An error that answers a call is a *lockapi.Error.
type Master struct {
	log     Log
	members Membership
	opts    Options
	started time.Duration
	refused quota.Refusals
	pacer   pacer
	vitals  *vitals
	counted cycleCount

	converted convertedEvents

	membersRev   membersRevision
	memberWakeup wait.Wakeup // of keepMembers
	table        *members.Table

	rest rest // between offices given up because this replica was unfit

	opening *progress.Step
	watched atomic.Pointer[office]        // the present one, or the last; read without a mutex
	hanging atomic.Pointer[progress.Hang] // the hang that ended an office; nil once it is over

	mu      sync.Mutex
	office  *office
	changed chan struct{} // closed and replaced when office changes
	handing bool          // mastership is being given up: open no office
	closing bool          // this replica is stopping: open no office any more

	stop context.CancelFunc
	done chan struct{}
}

// Location is where the master is.
type Location struct {
	Epoch    uint64 // the latest term of office that this replica knows of
	Revision uint64 // of this replica's own state
	Self     bool   // this replica is the master
	Leads    bool   // this replica leads, but its office is not open
	ID       string // the master's replica id; empty where no master is known
	URL      string // base URL of the master's API
}

// New starts a master on a replica. Close ends it.
func New(log Log, members Membership, o Options) *Master {
	o.Patience = cmp.Or(o.Patience, 1200*time.Millisecond)
	o.StaleFor = cmp.Or(o.StaleFor, time.Minute)
	o.Level = cmp.Or(o.Level, state.Level)
	// Batches carry whole milliseconds: a master that counted more for
	// itself than its successors read in the log would outlive their wait.
	o.LeaseTerm = o.LeaseTerm.Truncate(time.Millisecond)
	if o.Progress == nil {
		o.Progress = progress.New(o.Clock)
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Master{
		log: log, members: members, opts: o, started: o.Clock(),
		changed: make(chan struct{}), stop: stop, done: make(chan struct{}),
		memberWakeup: wait.NewWakeup(), vitals: newVitals(o.LeaseTerm),
	}
	m.table = m.newTable()
	m.opening = o.Progress.Step("open").Allow(stalledAfter) // with many sessions it takes a while
	go m.run(ctx)
	go every(ctx, o.LeaseTerm/4, func() { m.lookForHangs(o.LeaseTerm) })
	go m.tryMutexes(ctx, o.LeaseTerm)
	return m
}

// run opens an office whenever the replica leads, and waits for its end.
func (m *Master) run(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		leadership, offices := m.log.Changed(), m.officeChanged()
		term, leading := m.log.Leading()
		if !leading || !m.mayOpen() {
			select {
			case <-leadership:
			case <-offices:
			case <-ctx.Done():
			}
			continue
		}
		o, err := m.open(ctx, term)
		if err != nil {
			m.opts.Logger.Debug().Err(err).Uint64("term", term).Msg("no office opened yet")
			pause(ctx, retryOpening)
			continue
		}
		m.watched.Store(o)
		m.setOffice(o)
		during, over := context.WithCancel(ctx)
		go m.keepMembers(during, o)
		go m.keepFit(during, o)
		m.watch(ctx, o)
		over()
		m.setOffice(nil)
	}
}

// watch returns when the office has ended. It ends the office if the replica no
// longer leads in its term.
func (m *Master) watch(ctx context.Context, o *office) {
	for {
		changed := m.log.Changed()
		if term, leading := m.log.Leading(); !leading || term != o.term {
			o.end(errors.New("this replica no longer leads"))
		}
		select {
		case <-changed:
		case <-o.done:
			return
		case <-ctx.Done():
			o.end(errors.New("this replica is stopping"))
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (m *Master) setOffice(o *office) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.office = o
	m.broadcast()
}

// broadcast wakes the goroutines that wait on officeChanged. m.mu is held.
func (m *Master) broadcast() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *Master) officeChanged() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *Master) mayOpen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.handing && !m.closing
}

// inOffice returns the present office, or nil if this replica is not the master
// or is giving mastership up.
func (m *Master) inOffice() *office {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.office == nil || m.handing {
		return nil
	}
	select {
	case <-m.office.done:
		return nil
	default:
		return m.office
	}
}

// admit checks the caller of a change in this office.
func (o *office) admit(by *Caller) error { return by.admit(o.authorize) }

// admit checks the caller of a change, and checks it again once the audit log has
// the call. After that the caller's principal is known, also for a token.
func (by *Caller) admit(authorize func(*Caller) error) error {
	if err := authorize(by); err != nil || by.Admitted == nil {
		return err
	}
	if err := by.Admitted(by.found()); err != nil {
		return err
	}
	return authorize(by) // the audit may have taken a while
}

// Known returns what this replica knows now of the master; it never blocks.
func (m *Master) Known() Location {
	s := m.log.State()
	loc := Location{Epoch: s.Epoch, Revision: s.Revision}
	if o := m.inOffice(); o != nil {
		loc.Epoch, loc.Self, loc.ID, loc.URL = o.epoch, true, m.opts.ID, m.members.URL(m.opts.ID)
		return loc
	}
	switch id := m.members.Leader(); id {
	case "":
	case m.opts.ID:
		loc.Leads = true
	default:
		loc.ID, loc.URL = id, m.members.URL(id)
	}
	return loc
}

// Lease returns this replica's lease as master, also while it hands its office
// over. It is zero without an office. Reading it does not authorize acting; see
// package lease.
func (m *Master) Lease() lease.View {
	m.mu.Lock()
	o := m.office
	m.mu.Unlock()
	if o == nil {
		return lease.View{}
	}
	return o.lease.View(o.now())
}

// Locate finds the master, and waits for one for up to Options.Patience. The
// error is no_master.
func (m *Master) Locate(ctx context.Context) (Location, error) {
	patience := time.NewTimer(m.opts.Patience)
	defer patience.Stop()
	for {
		leadership, offices := m.log.Changed(), m.officeChanged()
		if loc := m.Known(); loc.ID != "" {
			return loc, nil
		}
		select {
		case <-leadership:
		case <-offices:
		case <-patience.C:
			return Location{}, errNoMaster("no master was elected within %v; a majority of the replicas must be up", m.opts.Patience)
		case <-ctx.Done():
			return Location{}, errNoMaster("the call ended while it waited for a master")
		}
	}
}

func errNotMaster() *lockapi.Error { return errNoMaster("this replica is not the master") }

// errNoMaster reports that a call had no effect.
func errNoMaster(format string, args ...any) *lockapi.Error {
	e := lockapi.Errorf(lockapi.CodeNoMaster, format, args...)
	e.RetryAfter = 1
	return e
}
