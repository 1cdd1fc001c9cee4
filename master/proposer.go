package master

import (
	"errors"
	"time"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/batch"
	"github.com/stoutlock/stout/master/internal/members"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// proposer answers from memory what changes nothing, while the lease runs, and
// proposes the rest. It has no mutex; its parts have their own.
type proposer struct {
	opts    *Options
	log     Log
	lease   lease.Master
	batcher *batch.Batcher
}

func (p *proposer) now() time.Duration { return p.opts.Clock() }

// leaseValid reports whether the lease runs now. Call it after the action that
// it is to allow, not before.
func (p *proposer) leaseValid() bool { return p.lease.Valid(p.now()) }

// fromMemory returns an operation's result if it changes nothing: it reads, and
// then checks the lease. If it returns false, the log must decide.
func (p *proposer) fromMemory(op state.Operation) (state.Result, bool) {
	if r, changes := p.log.State().Would(op); !changes && r != nil && p.leaseValid() {
		return r, true
	}
	return nil, false
}

// propose puts an operation through the log and waits for its result. The error
// is a *lockapi.Error: no_master if the operation certainly has no effect,
// outcome_unknown if it may have one.
func (p *proposer) propose(by *Caller, op state.Operation) (state.Result, error) {
	return p.begin(by, op)()
}

// begin is propose in two steps. The operation has its place in the log's order
// when begin returns. The returned function waits for the result and must be
// called once.
func (p *proposer) begin(by *Caller, op state.Operation) func() (state.Result, error) {
	if s := p.log.State(); !s.Knows(op) {
		return func() (state.Result, error) { return nil, members.ErrLevel(op, s.Level) }
	}
	c := state.Command{Time: time.Now().UnixNano(), Caller: by.Principal, Operation: op}
	if n := c.Size(); n > membership.MaxCommandBytes { // the log refuses it, and a refused entry ends the office
		return func() (state.Result, error) {
			return nil, lockapi.Errorf(lockapi.CodeTooLarge, "the call has %d bytes; the log takes %d", n, membership.MaxCommandBytes)
		}
	}
	wait := p.batcher.Begin(c, by.Timeline)
	return func() (state.Result, error) { return outcomeOf(wait()) }
}

// outcomeOf converts the outcome of an operation to an error of the contract.
func outcomeOf(r state.Result, err error) (state.Result, error) {
	switch {
	case err == nil && r == nil:
		return r, errNoMaster("the office ended before the call took effect")
	case err == nil:
		return r, nil
	case errors.Is(err, membership.ErrNotApplied):
		return r, errNoMaster("mastership was lost before the call took effect")
	}
	return r, errUnknown()
}

func errUnknown() *lockapi.Error {
	return lockapi.Errorf(lockapi.CodeOutcomeUnknown,
		"mastership was lost while the call was under way: it may or may not have taken effect; the same call may be sent again safely")
}

// resultOf returns a result as the type that the operation names.
func resultOf[R any](r state.Result, err error) (R, error) {
	got, _ := r.(R)
	return got, err
}
