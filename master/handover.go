package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/members"
	"github.com/stoutlock/stout/replica/membership"
)

// successorBound is how long a transfer waits to see the successor in office.
const successorBound = 5 * time.Second

// askAgain is the pause before a successor that is not well is asked again.
const askAgain = 50 * time.Millisecond

// TransferMastership hands mastership to the named replica, or to any if to is
// empty, and returns when it is in office. An unknown name is an
// invalid_argument. The error is conflict if the replica is not well within
// members.AskTimeout, or if no other member votes. Naming this replica changes nothing.
// The call needs no lease: see checkTransfer.
func (m *Master) TransferMastership(ctx context.Context, by *Caller, req *lockapi.TransferMastership) (lockapi.Transferred, error) {
	if req.To == m.opts.ID {
		return serve(m, by, func(*office) (lockapi.Transferred, error) { return lockapi.Transferred{Master: req.To}, nil })
	}
	if err := m.checkTransfer(ctx, by, req.To); err != nil {
		return lockapi.Transferred{}, err
	}
	return m.transferMastership(ctx, req.To)
}

// checkTransfer returns why mastership can't be handed over as requested. While
// the lease runs, the office decides. A leader without a lease, or without an
// open office, may be the very one to be replaced: its answer takes a barrier,
// which a majority must store. No later leader had been elected then, so the
// state behind the barrier has everything that was acknowledged before the call
// began. The rights are checked by that state.
func (m *Master) checkTransfer(ctx context.Context, by *Caller, to string) error {
	if o := m.inOffice(); o != nil && o.leaseValid() {
		began := o.now()
		err := o.admit(by)
		if err == nil {
			err = m.checkSuccessor(ctx, to)
		}
		if err == nil { // the successor may have taken a while to be well
			err = o.authorize(by)
		}
		if err != nil { // only a refusal is an answer
			err = o.vouch(began, err)
		}
		if !errors.Is(err, lockapi.CodeNoMaster) || o.leaseValid() {
			return err
		}
	}
	if _, leads := m.log.Leading(); !leads {
		return errNotMaster()
	}
	bounded, cancel := context.WithTimeout(ctx, successorBound)
	defer cancel()
	if err := m.log.Barrier(bounded); err != nil {
		return errNoMaster("the master holds no lease, and no majority of the replicas answered it within %v: %v", successorBound, err)
	}
	authorize := func(by *Caller) error { return m.opts.authorize(m.log.State(), by) }
	if err := by.admit(authorize); err != nil {
		return err
	}
	if err := m.checkSuccessor(ctx, to); err != nil {
		return err
	}
	return authorize(by)
}

// checkSuccessor returns why mastership can't be handed to the named replica, or to
// any.
func (m *Master) checkSuccessor(ctx context.Context, to string) error {
	if err := m.checkSuccessorName(to); err != nil {
		return err
	}
	return m.isWell(ctx, to)
}

// transferMastership hands mastership over, to the named replica or to any (see
// checkSuccessor).
func (m *Master) transferMastership(ctx context.Context, to string) (lockapi.Transferred, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*successorBound)
	defer cancel()
	before := m.log.State().Epoch
	o, ok := m.beginHandover()
	if !ok {
		return lockapi.Transferred{}, errNoMaster("mastership is changing hands already")
	}
	if _, leads := m.log.Leading(); o == nil && !leads {
		m.endHandover()
		return lockapi.Transferred{}, errNotMaster()
	}
	failed := m.handover(ctx, o, to, m.opts.LeaseTerm)
	m.endHandover()
	done, err := m.successor(ctx, before)
	if err != nil && failed != nil {
		err = failed
	}
	return done, err
}

func (m *Master) checkSuccessorName(to string) error {
	others := 0
	for _, r := range m.members.Members() {
		if r.ID == to && !r.Voter {
			return lockapi.Invalid("to", "replica %q does not vote and cannot be master", to)
		}
		if r.ID == to {
			return nil
		}
		if r.Voter && r.ID != m.opts.ID {
			others++
		}
	}
	if to != "" {
		return lockapi.Invalid("to", "replica %q is not in this cell", lockapi.Clip(to))
	}
	if others == 0 {
		return lockapi.Errorf(lockapi.CodeConflict, "replica %q is the cell's only voter: there is no other to hand mastership to", m.opts.ID)
	}
	return nil
}

// isWell returns why the named replica could not take mastership now, before
// the office is given up for it. A replica that has just started has contact
// with its master within moments, so isWell waits for it. It asks no replica if
// any will do, or if there is nothing to hand over.
func (m *Master) isWell(ctx context.Context, to string) error {
	if _, leads := m.log.Leading(); to == "" || !leads {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, members.AskTimeout)
	defer cancel()
	for what := ""; ; pause(ctx, askAgain) {
		now, passes := m.lacks(ctx, to)
		if now == "" {
			return nil
		}
		if what == "" || ctx.Err() == nil { // an interrupted answer does not replace an earlier one
			what = now
		}
		if !passes || ctx.Err() != nil {
			return lockapi.Errorf(lockapi.CodeConflict, "replica %q is not well and cannot take mastership: it %s. Mastership stays here; name another replica, or none", to, what)
		}
	}
}

// lacks asks the named replica once what it lacks for mastership, and returns
// empty if nothing. passes reports that the lack may pass by itself.
func (m *Master) lacks(ctx context.Context, to string) (what string, passes bool) {
	card, err := m.members.Ask(ctx, to)
	switch {
	case err != nil:
		return fmt.Sprintf("does not answer (%v)", err), true
	case card.CellID != m.members.CellID() || !m.votes(to, card.Directory):
		return fmt.Sprintf("answers with directory %s, which is not the member's", card.Directory), false
	case !card.HasLeader:
		return "has no contact with this master", true
	}
	return "", false
}

// votes reports whether a directory is a member's voting one.
func (m *Master) votes(id, directory string) bool {
	return slices.ContainsFunc(m.members.Members(), func(s membership.MemberStatus) bool {
		return s.ID == id && s.Directory == directory && s.Voter
	})
}

// beginHandover returns the office to be given up, or nil, and lets no other
// open in the meantime. It returns false if mastership is being given up
// already.
func (m *Master) beginHandover() (o *office, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.handing {
		return nil, false
	}
	m.handing = true
	m.broadcast()
	return m.office, true
}

// endHandover lets an office be opened again.
func (m *Master) endHandover() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handing = false
	m.broadcast()
}

// handover closes the office, if there is one, in good order and makes another
// replica the leader. If that fails, this replica may open a new office; it
// never resumes the closed one. For patience see resign: after one term of the
// lease the successor need not wait, whether the office is closed or not.
func (m *Master) handover(ctx context.Context, o *office, to string, patience time.Duration) error {
	logger := m.opts.Logger
	if o != nil {
		logger = o.logger
	}
	logger.Info().Str("to", to).Msg("handing mastership over")
	if o != nil {
		o.resign(ctx, patience, errors.New("mastership is handed over"))
	}
	if err := m.log.Transfer(ctx, to); err != nil {
		logger.Warn().Err(err).Str("to", to).Msg("the transfer of mastership failed")
		return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the transfer of mastership did not complete (%v); it may yet take effect. See the cell's state, and try again", err)
	}
	return nil
}

// successor waits until this replica has applied the opening entry of another
// master, of an epoch after before. With a slow disk the library may report a
// transfer as failed that succeeds later.
func (m *Master) successor(ctx context.Context, before uint64) (lockapi.Transferred, error) {
	ctx, cancel := context.WithTimeout(ctx, successorBound)
	defer cancel()
	for {
		if s := m.log.State(); s.Epoch > before && s.Office.Open && s.Office.Master != m.opts.ID {
			return lockapi.Transferred{Master: s.Office.Master}, nil
		}
		if m.inOffice() != nil {
			return lockapi.Transferred{}, lockapi.Errorf(lockapi.CodeOutcomeUnknown, "no other replica took mastership; %q is master again", m.opts.ID)
		}
		if ctx.Err() != nil {
			return lockapi.Transferred{}, lockapi.Errorf(lockapi.CodeOutcomeUnknown, "mastership was handed over, but no new master was seen within %v", successorBound)
		}
		pause(ctx, 2*time.Millisecond)
	}
}

// Close gives mastership up in good order, if this replica has it, and stops.
// ctx bounds it. Calls under way are answered, or end with outcome_unknown.
func (m *Master) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	o, _ := m.beginHandover()
	switch {
	case o == nil:
	case m.checkSuccessorName("") == nil:
		// On failure the replica stops anyway; the others elect a
		// master.
		_ = m.handover(ctx, o, "", m.opts.LeaseTerm)
	default:
		o.resign(ctx, stalledAfter, errors.New("this replica is stopping"))
	}
	m.stop()
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
