package members

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

const (
	// turnWait is how long a change of the members waits for another one
	// before it is refused as busy.
	turnWait = 500 * time.Millisecond
	// changeBound is how long a change may take to commit before its
	// outcome is unknown.
	changeBound = 5 * time.Second
)

// exclusively makes a change of the members while this master makes no other,
// and then wakes the rounds to finish what is left. So the entries of two
// changes do not mix, and a round does not undo a change under way. It makes none for
// an office that is over: the last entry of that office may still come, and would
// follow the change.
func (t *Table) exclusively(ctx context.Context, o Office, change func(context.Context) error) error {
	defer t.opts.Wake()
	return t.quietly(ctx, o, change)
}

// quietly is exclusively without waking the rounds, for the rounds themselves.
func (t *Table) quietly(ctx context.Context, o Office, change func(context.Context) error) error {
	select {
	case t.turn <- struct{}{}:
	case <-time.After(turnWait):
		return lockapi.Errorf(lockapi.CodeBusy, "%v; try again when it is committed", membership.ErrBusy)
	case <-ctx.Done():
		return errNoMaster("the call ended while it waited for another change of the members")
	}
	defer func() { <-t.turn }()
	if o.Ended() {
		return errNoMaster("mastership was lost before the membership was changed")
	}
	ctx, cancel := context.WithTimeout(ctx, changeBound)
	defer cancel()
	return change(ctx)
}

// change makes one change and converts its result to an error of the contract.
func (t *Table) change(ctx context.Context, since uint64, change membership.Change, s membership.MemberStatus) error {
	err := t.cell.ChangeMember(ctx, since, change, s)
	switch {
	case err == nil:
		t.opts.Logger.Info().Str("change", string(change)).Str("member", s.ID).Str("directory", s.Directory).Msg("the membership has changed")
		t.opts.Changed(change, s.ID)
		return nil
	case errors.Is(err, membership.ErrBusy):
		return lockapi.Errorf(lockapi.CodeBusy, "%v; try again when it is committed", err)
	case errors.Is(err, membership.ErrNotApplied):
		return errNoMaster("mastership was lost before the membership was changed")
	}
	return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the change of the membership (%s %s) may or may not take effect: %v; see GET %s", change, s.ID, err, lockapi.RouteMembers)
}

// repeat makes a change of each member that next returns, until it returns
// none.
func (t *Table) repeat(ctx context.Context, change membership.Change, next func([]membership.MemberStatus) (s membership.MemberStatus, more bool)) error {
	for {
		now, err := t.membership()
		if err != nil {
			return err
		}
		s, more := next(now.Members)
		if !more {
			return nil
		}
		if err := t.change(ctx, now.Index, change, s); err != nil {
			return err
		}
	}
}

// putMember proposes a member's row of the table.
func (t *Table) putMember(o Office, row state.Member) error {
	op := &state.PutMember{Member: row}
	if err := o.ReadyFor(op); err != nil {
		return err
	}
	r, err := o.Put(op)
	if err == nil && r == state.Full {
		err = errFull()
	}
	return err
}

func errFull() error {
	return lockapi.Errorf(lockapi.CodeConflict, "the cell has the maximum of %d members", lockapi.MaxMembers)
}

// Add makes a replica a member without a vote. It returns once the replica is a
// nonvoter. A Round gives it a vote when it has caught up, unless it is to stay
// without one. Adding an existing member again changes nothing.
func (t *Table) Add(ctx context.Context, o Office, req *lockapi.AddMember) error {
	if err := req.Validate(); err != nil {
		return err
	}
	return t.exclusively(ctx, o, func(ctx context.Context) error {
		now, err := t.settled()
		if err != nil {
			return err
		}
		row := state.Member{ID: req.ID, Directory: req.Directory, RaftAddr: req.RaftAddr, URL: req.URL, Stays: req.Suffrage == lockapi.SuffrageNonvoter}
		put, _ := t.opts.State().MemberNamed(req.ID)
		there, err := mayAdd(now.Members, row, put.Stays)
		if there || err != nil {
			return err
		}
		if err := t.putMember(o, row); err != nil {
			return err
		}
		return t.change(ctx, now.Index, membership.AddNonvoter, membership.MemberStatus{
			Member: membership.Member{ID: req.ID, RaftAddr: req.RaftAddr, APIURL: req.URL}, Directory: req.Directory})
	})
}

// mayAdd returns why a member can't be added, or reports that it is there
// already. stays reports whether a present member stays without a vote.
func mayAdd(now []membership.MemberStatus, row state.Member, stays bool) (there bool, err error) {
	for _, s := range now {
		switch {
		case s.ID == row.ID && s.Directory == row.Directory:
			switch {
			case s.RaftAddr != row.RaftAddr, s.APIURL != row.URL:
				return true, lockapi.Errorf(lockapi.CodeConflict, "replica %q with that directory is a member already, at %s and %s; PATCH it to change that", s.ID, s.RaftAddr, s.APIURL)
			case stays != row.Stays:
				return true, lockapi.Errorf(lockapi.CodeConflict, "replica %q with that directory is a member already, %s; PATCH its suffrage to change that", s.ID, voteText[stays])
			}
			return true, nil
		case s.ID == row.ID:
			return true, lockapi.Errorf(lockapi.CodeConflict, "the cell has a member %q already, with directory %s; replace its directory, or add the replica by another id", s.ID, s.Directory)
		case s.Directory == row.Directory:
			return true, lockapi.Errorf(lockapi.CodeConflict, "directory %s belongs to member %q", s.Directory, s.ID)
		}
	}
	if err := addressesFree(now, row); err != nil {
		return false, err
	}
	if len(now) >= lockapi.MaxMembers {
		return false, errFull()
	}
	return false, nil
}

var voteText = map[bool]string{true: "which stays without a vote", false: "which has a vote or gets one"}

// addressesFree returns an error if another member has one of these addresses.
func addressesFree(now []membership.MemberStatus, row state.Member) error {
	for _, s := range now {
		switch {
		case s.ID == row.ID:
		case s.RaftAddr == row.RaftAddr:
			return lockapi.Errorf(lockapi.CodeConflict, "raft_addr %s belongs to member %q", row.RaftAddr, s.ID)
		case s.APIURL == row.URL:
			return lockapi.Errorf(lockapi.CodeConflict, "url %s belongs to member %q", row.URL, s.ID)
		}
	}
	return nil
}

// find asks the members, and returns the place of the one with that name.
func (t *Table) find(ctx context.Context, id string) (seen View, place int, err error) {
	if seen, err = t.Ask(ctx); err == nil {
		if place, err = seen.place(id); err != nil && seen.changing {
			err = errBusy() // it may be a member yet
		}
	}
	return seen, place, err
}

// Remove removes a member with all directories of its name. The master hands
// over before it is removed itself: the error is no_master, and the caller must
// ask the next master. If the request names a directory other than the member's
// latest, the error is conflict.
func (t *Table) Remove(ctx context.Context, o Office, req *lockapi.RemoveMember) error {
	seen, voter, err := t.find(ctx, req.ID)
	if err != nil {
		return err
	}
	if err := seen.mayChange(req.ID, req.Directory); err != nil {
		return err
	}
	if seen.members[voter].Voter {
		if err := t.mayLose(ctx, seen, voter, req.Force); err != nil {
			return err
		}
	}
	return t.exclusively(ctx, o, func(ctx context.Context) error { return t.drop(ctx, req.ID, "", seen.index) })
}

// drop removes all directories of a name; with but set, it removes only other
// directories that do not vote. The configuration must be the one at index
// since, else the error is busy: another change came in between. After the
// first removal an error is an outcome_unknown.
func (t *Table) drop(ctx context.Context, id, but string, since uint64) error {
	for begun := false; ; begun = true {
		now, err := t.membership()
		if err == nil && !begun && (now.Index != since || now.Changing) {
			err = errBusy()
		}
		next := goesNext(now.Members, id, but)
		if err == nil && next >= 0 {
			err = t.change(ctx, now.Index, membership.RemoveMember, now.Members[next])
		}
		switch {
		case err != nil && begun:
			return halfway(err)
		case err != nil || next < 0:
			return err
		}
	}
}

// goesNext returns the place of the next directory that drop removes, or -1.
// Nonvoters go first, in the order in which they were added.
func goesNext(now []membership.MemberStatus, id, but string) int {
	next := -1
	for i, s := range now {
		if s.ID != id || s.Directory == but || but != "" && s.Voter {
			continue
		}
		if next < 0 || now[next].Voter && !s.Voter {
			next = i
		}
	}
	return next
}

// mayLose returns why the cell can't lose a member's vote. If the vote is this
// master's own, it hands mastership over and returns no_master.
func (t *Table) mayLose(ctx context.Context, seen View, place int, force bool) error {
	all, _ := seen.voters(place)
	if all == 0 {
		return lockapi.Errorf(lockapi.CodeUnsafe, "replica %s is the only voter: without it there is no cell", seen.members[place].ID)
	}
	if err := seen.mayRemove(place); err != nil && !force {
		return err
	}
	if m := seen.members[place]; m.ID != t.opts.ID || m.Directory != t.cell.Directory() {
		return nil
	}
	if err := t.opts.Transfer(ctx); err != nil {
		return err
	}
	return errNoMaster("mastership was handed over; ask the new master")
}

// Set changes a member's addresses, and whether it votes. A member that gains a
// vote gets it once it has caught up. The master hands over before it loses its
// own vote: the error is no_master.
func (t *Table) Set(ctx context.Context, o Office, req *lockapi.SetMember) (lockapi.Member, error) {
	var none lockapi.Member
	if err := req.Validate(); err != nil {
		return none, err
	}
	seen, place, err := t.find(ctx, req.ID)
	if err != nil {
		return none, err
	}
	demote := req.Suffrage != nil && *req.Suffrage == lockapi.SuffrageNonvoter && seen.members[place].Voter
	if demote {
		if err := t.mayLose(ctx, seen, place, req.Force); err != nil {
			return none, err
		}
	}
	if err := t.exclusively(ctx, o, func(ctx context.Context) error { return t.set(ctx, o, seen, place, req, demote) }); err != nil {
		return none, err
	}
	if seen, err = t.Ask(ctx); err != nil {
		return none, lockapi.Errorf(lockapi.CodeOutcomeUnknown, "replica %q was changed, but its present state is unknown: %v", req.ID, err)
	}
	if place, err = seen.place(req.ID); err != nil {
		return none, lockapi.Errorf(lockapi.CodeOutcomeUnknown, "replica %q was changed, and is no longer a member", req.ID)
	}
	return t.List(seen).Members[place], nil
}

func (t *Table) set(ctx context.Context, o Office, seen View, place int, req *lockapi.SetMember, demote bool) error {
	now, err := t.settled() // a change that commits later would contradict the table
	switch {
	case err != nil:
		return err
	case now.Index != seen.index:
		return errBusy()
	}
	is := seen.members[place].MemberStatus
	put, _ := t.opts.State().MemberNamed(is.ID)
	row := state.Member{ID: is.ID, Directory: is.Directory, RaftAddr: is.RaftAddr, URL: is.APIURL, Stays: put.Stays}
	if req.RaftAddr != nil {
		row.RaftAddr = *req.RaftAddr
	}
	if req.URL != nil {
		row.URL = *req.URL
	}
	if err := addressesFree(now.Members, row); err != nil {
		return err
	}
	if req.Suffrage != nil {
		if row.Stays = *req.Suffrage == lockapi.SuffrageNonvoter; row.Stays != put.Stays &&
			slices.ContainsFunc(now.Members, func(s membership.MemberStatus) bool { return s.ID == is.ID && s.Directory != is.Directory }) {
			return lockapi.Errorf(lockapi.CodeBusy, "another directory is about to take the place of %q; wait for that, or take it back", is.ID)
		}
	}
	// Before the vote is lost: the cell's level may lack the table.
	if err := o.ReadyFor(&state.PutMember{}); err != nil {
		return err
	}
	if s := t.opts.State(); !s.Knows(&state.PutMember{}) {
		return ErrLevel(&state.PutMember{}, s.Level)
	}
	if demote {
		if err := t.change(ctx, now.Index, membership.DemoteMember, is); err != nil {
			return err
		}
	}
	if err := t.putMember(o, row); err != nil {
		if demote {
			return halfway(err)
		}
		return err
	}
	return halfway(t.move(ctx))
}

// halfway returns the error of a change after its first entry was made and its
// second one failed. It is outcome_unknown, because the failure does not refuse
// the whole change.
func halfway(err error) error {
	if err == nil || errors.Is(err, lockapi.CodeOutcomeUnknown) {
		return err
	}
	return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "only a part of the change was made so far (%v): the master finishes or undoes it; see GET %s", err, lockapi.RouteMembers)
}

// Replace replaces a member's directory by another one. It returns once the new
// directory is a nonvoter; a Round of this master or the next does the rest. If
// the new directory is pending already, the replacement continues; if it is the
// present one, it stays. Any other pending directory is removed. If the request
// names a directory to replace that is not the member's latest, the error is
// conflict, unless the latest is the new one.
func (t *Table) Replace(ctx context.Context, o Office, req *lockapi.ReplaceMember) error {
	if err := req.Validate(); err != nil {
		return err
	}
	seen, old, err := t.find(ctx, req.ID)
	if err != nil {
		return err
	}
	if err := seen.mayChange(req.ID, req.InPlaceOf); err != nil && seen.latest(req.ID) != req.Directory {
		return err
	}
	switch {
	case seen.has(func(m member) bool { return m.ID == req.ID && m.Directory == req.Directory }):
		return t.exclusively(ctx, o, func(ctx context.Context) error { return t.drop(ctx, req.ID, req.Directory, seen.index) })
	case seen.has(func(m member) bool { return m.Directory == req.Directory }):
		return lockapi.Errorf(lockapi.CodeConflict, "directory %s is another member's", req.Directory)
	}
	if err := seen.mayRemove(old); err != nil && !req.Force {
		return err
	}
	return t.exclusively(ctx, o, func(ctx context.Context) error {
		return t.admit(ctx, seen, seen.members[old].Member, req.Directory)
	})
}

// admit makes the new directory a nonvoter, and then removes an earlier
// nonvoter that was to have the same place. The new one is added first, so that
// the configuration always has the name: otherwise the cell would forget the
// member.
func (t *Table) admit(ctx context.Context, seen View, as membership.Member, directory string) error {
	if err := t.change(ctx, seen.index, membership.AddNonvoter, membership.MemberStatus{Member: as, Directory: directory}); err != nil {
		return err
	}
	return halfway(t.makeWay(ctx))
}
