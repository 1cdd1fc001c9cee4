package master

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// A change of a member takes two entries: one of the table of members, which
// has each member's addresses and whether it stays without a vote, and one of
// Raft's configuration; or two of the configuration. The second entry may be
// missing after a master is lost. The order lets the next master recognize the
// intent, and finish or undo the change (see settleMembers and step in
// keepmembers.go). docs/design.md, "The table of members", has a row for each
// kind of change, and TestHalfChanges makes the first half of each.

const (
	// membersWait is how long a change of the members waits for another one
	// before it is refused as busy.
	membersWait = 500 * time.Millisecond
	// changeBound is how long a change may take to commit before its
	// outcome is unknown.
	changeBound = 5 * time.Second
)

// exclusively makes a change of the members while this master makes no other,
// and then wakes keepMembers to finish what is left. So the entries of two
// changes do not mix, and keepMembers does not undo a change under way.
func (m *Master) exclusively(ctx context.Context, change func(context.Context) error) error {
	defer m.memberWakeup.Wake()
	return m.quietly(ctx, change)
}

// quietly is exclusively for keepMembers itself.
func (m *Master) quietly(ctx context.Context, change func(context.Context) error) error {
	wait := time.NewTimer(membersWait)
	defer wait.Stop()
	select {
	case m.membersTurn <- struct{}{}:
	case <-wait.C:
		return lockapi.Errorf(lockapi.CodeBusy, "%v; try again when it is committed", membership.ErrBusy)
	case <-ctx.Done():
		return errNoMaster("the call ended while it waited for another change of the members")
	}
	defer func() { <-m.membersTurn }()
	ctx, cancel := context.WithTimeout(ctx, changeBound)
	defer cancel()
	return change(ctx)
}

// putMember proposes a member's row of the table.
func (m *Master) putMember(o *office, row state.Member) error {
	op := &state.PutMember{Member: row}
	if err := o.readyFor(op); err != nil {
		return err
	}
	r, ok := o.fromMemory(op)
	if !ok {
		var err error
		if r, err = o.propose(&Caller{}, op); err != nil {
			return err
		}
	}
	if r == state.Full {
		return errFull()
	}
	return nil
}

func errFull() error {
	return lockapi.Errorf(lockapi.CodeConflict, "the cell has the maximum of %d members", lockapi.MaxMembers)
}

// AddMember makes a replica a member without a vote. It returns once the
// replica is a nonvoter. This master or the next gives it a vote when it has
// caught up, unless it is to stay without one (see keepMembers). Adding an
// existing member again changes nothing.
func (m *Master) AddMember(ctx context.Context, by *Caller, req *lockapi.AddMember) (lockapi.MemberChange, error) {
	return lockapi.MemberChange{ID: req.ID, Directory: req.Directory}, m.served(func(o *office) error { return m.add(ctx, o, by, req) })
}

func (m *Master) add(ctx context.Context, o *office, by *Caller, req *lockapi.AddMember) error {
	if err := o.admit(by); err != nil {
		return err
	}
	if err := req.Validate(); err != nil {
		return err
	}
	return m.exclusively(ctx, func(ctx context.Context) error {
		now, err := m.members.Membership()
		if err != nil {
			return errNoMaster("the membership is not known: %v", err)
		}
		row := state.Member{ID: req.ID, Directory: req.Directory, RaftAddr: req.RaftAddr, URL: req.URL, Stays: req.Suffrage == lockapi.SuffrageNonvoter}
		there, err := mayAdd(now.Members, row)
		if there || err != nil {
			return err
		}
		if err := m.putMember(o, row); err != nil {
			return err
		}
		return m.change(ctx, now.Index, membership.AddNonvoter, membership.MemberStatus{
			Member: membership.Member{ID: req.ID, RaftAddr: req.RaftAddr, APIURL: req.URL}, Directory: req.Directory})
	})
}

// mayAdd returns why a member can't be added, or reports that it is there
// already.
func mayAdd(now []membership.MemberStatus, row state.Member) (there bool, err error) {
	for _, s := range now {
		switch {
		case s.ID == row.ID && s.Directory == row.Directory:
			if s.RaftAddr == row.RaftAddr && s.APIURL == row.URL {
				return true, nil
			}
			return true, lockapi.Errorf(lockapi.CodeConflict, "replica %q with that directory is a member already, at %s and %s; PATCH it to change that", s.ID, s.RaftAddr, s.APIURL)
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

// RemoveMember removes a member with all directories of its name. The master
// hands over before it is removed itself: the error is no_master, and the
// caller must ask the next master. If the request names a directory other than
// the member's latest, the error is conflict.
func (m *Master) RemoveMember(ctx context.Context, by *Caller, req *lockapi.RemoveMember) (lockapi.MemberRemoved, error) {
	return lockapi.MemberRemoved{ID: req.ID, Removed: true}, m.served(func(o *office) error { return m.remove(ctx, o, by, req) })
}

func (m *Master) remove(ctx context.Context, o *office, by *Caller, req *lockapi.RemoveMember) error {
	if err := o.admit(by); err != nil {
		return err
	}
	seen, err := m.poll(ctx)
	if err != nil {
		return err
	}
	voter, err := seen.place(req.ID)
	if err != nil {
		return err
	}
	if err := seen.mayChange(req.ID, req.Directory); err != nil {
		return err
	}
	if seen.members[voter].Voter {
		if err := m.mayLose(ctx, seen, voter, req.Force); err != nil {
			return err
		}
	}
	return m.exclusively(ctx, func(ctx context.Context) error { return m.drop(ctx, req.ID, "", seen.index) })
}

// drop removes all directories of a name; with but set, it removes only other
// directories that do not vote. The configuration must be the one at index
// since, else the error is busy: another change came in between. After the
// first removal an error is an outcome_unknown.
func (m *Master) drop(ctx context.Context, id, but string, since uint64) error {
	for begun := false; ; begun = true {
		now, err := m.members.Membership()
		switch {
		case err != nil:
			err = errNoMaster("the membership is not known: %v", err)
		case !begun && now.Index != since:
			err = lockapi.Errorf(lockapi.CodeBusy, "%v; try again", membership.ErrBusy)
		}
		next := goesNext(now.Members, id, but)
		if err == nil && next >= 0 {
			err = m.change(ctx, now.Index, membership.RemoveMember, now.Members[next])
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

// place returns the place of a member in a poll: its voting directory if it
// has one.
func (r pollResult) place(id string) (int, error) {
	i := slices.IndexFunc(r.members, func(v member) bool { return v.ID == id && v.Voter })
	if i < 0 {
		i = slices.IndexFunc(r.members, func(v member) bool { return v.ID == id })
	}
	if i < 0 {
		return i, lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member of this cell; GET %s lists them", id, lockapi.RouteMembers)
	}
	return i, nil
}

// latest returns the directory of a name that was added last, which the name
// keeps once every pending change is done.
func (r pollResult) latest(id string) (directory string) {
	for _, v := range r.members {
		if v.ID == id {
			directory = v.Directory
		}
	}
	return directory
}

// mayChange refuses a request made when the member had another directory: it
// may have been delayed, and would undo a later change. An empty directory
// matches any.
func (r pollResult) mayChange(id, directory string) error {
	if now := r.latest(id); directory != "" && directory != now {
		return lockapi.Errorf(lockapi.CodeConflict, "replica %q now has directory %s, not %s; see GET %s, and name the present one", id, now, directory, lockapi.RouteMembers)
	}
	return nil
}

// mayLose returns why the cell can't lose a member's vote. If the vote is this
// master's own, it hands mastership over and returns no_master.
func (m *Master) mayLose(ctx context.Context, seen pollResult, place int, force bool) error {
	all, _ := seen.voters(place)
	if all == 0 {
		return lockapi.Errorf(lockapi.CodeUnsafe, "replica %s is the only voter: without it there is no cell", seen.members[place].ID)
	}
	if err := seen.mayRemove(place); err != nil && !force {
		return err
	}
	if v := seen.members[place]; v.ID != m.opts.ID || v.Directory != m.members.Directory() {
		return nil
	}
	if err := m.mayHandTo(ctx, ""); err != nil {
		return err
	}
	if _, err := m.handOff(ctx, ""); err != nil {
		return err
	}
	return errNoMaster("mastership was handed over; ask the new master")
}

// SetMember changes a member's addresses, and whether it votes. A member that
// gains a vote gets it once it has caught up. The master hands over before it
// loses its own vote: the error is no_master.
func (m *Master) SetMember(ctx context.Context, by *Caller, req *lockapi.SetMember) (lockapi.Member, error) {
	return serve(m, func(o *office) (lockapi.Member, error) { return m.setMember(ctx, o, by, req) })
}

func (m *Master) setMember(ctx context.Context, o *office, by *Caller, req *lockapi.SetMember) (lockapi.Member, error) {
	if err := o.admit(by); err != nil {
		return lockapi.Member{}, err
	}
	if err := req.Validate(); err != nil {
		return lockapi.Member{}, err
	}
	seen, err := m.poll(ctx)
	if err != nil {
		return lockapi.Member{}, err
	}
	place, err := seen.place(req.ID)
	if err != nil {
		return lockapi.Member{}, err
	}
	demote := req.Suffrage != nil && *req.Suffrage == lockapi.SuffrageNonvoter && seen.members[place].Voter
	if demote {
		if err := m.mayLose(ctx, seen, place, req.Force); err != nil {
			return lockapi.Member{}, err
		}
	}
	err = m.exclusively(ctx, func(ctx context.Context) error { return m.set(ctx, o, seen, place, req, demote) })
	if err != nil {
		return lockapi.Member{}, err
	}
	if seen, err = m.poll(ctx); err != nil {
		return lockapi.Member{}, lockapi.Errorf(lockapi.CodeOutcomeUnknown, "replica %q was changed, but its present state is unknown: %v", req.ID, err)
	}
	if place, err = seen.place(req.ID); err != nil {
		return lockapi.Member{}, lockapi.Errorf(lockapi.CodeOutcomeUnknown, "replica %q was changed, and is no longer a member", req.ID)
	}
	return m.show(seen).Members[place], nil
}

func (m *Master) set(ctx context.Context, o *office, seen pollResult, place int, req *lockapi.SetMember, demote bool) error {
	now, err := m.members.Membership()
	switch {
	case err != nil:
		return errNoMaster("the membership is not known: %v", err)
	case now.Index != seen.index, now.Changing: // a change that commits later would contradict the table
		return lockapi.Errorf(lockapi.CodeBusy, "%v; try again", membership.ErrBusy)
	}
	is := seen.members[place].MemberStatus
	put, _ := m.log.State().MemberNamed(is.ID)
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
	if err := o.readyFor(&state.PutMember{}); err != nil {
		return err
	}
	if !o.log.State().Knows(&state.PutMember{}) {
		return errLevel(&state.PutMember{}, o.log.State().Level)
	}
	if demote {
		if err := m.change(ctx, now.Index, membership.DemoteMember, is); err != nil {
			return err
		}
	}
	if err := m.putMember(o, row); err != nil {
		if demote {
			return halfway(err)
		}
		return err
	}
	return halfway(m.move(ctx))
}

// halfway returns the error of a change whose first entry was made and whose
// second failed. It is outcome_unknown, because the failure is no refusal of
// the whole change.
func halfway(err error) error {
	if err == nil || errors.Is(err, lockapi.CodeOutcomeUnknown) {
		return err
	}
	return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "only a part of the change was made so far (%v): the master finishes or undoes it; see GET %s", err, lockapi.RouteMembers)
}

// move updates Raft's configuration to the addresses in the table.
func (m *Master) move(ctx context.Context) error {
	for {
		now, err := m.members.Membership()
		if err != nil {
			return errNoMaster("the membership is not known: %v", err)
		}
		s := m.log.State()
		i := slices.IndexFunc(now.Members, func(is membership.MemberStatus) bool {
			put, _ := s.MemberNamed(is.ID) // the table may lack the directory yet
			return put.Put && put.RaftAddr != is.At
		})
		if i < 0 {
			return nil
		}
		moved := now.Members[i]
		put, _ := s.MemberNamed(moved.ID)
		moved.RaftAddr = put.RaftAddr
		if err := m.change(ctx, now.Index, membership.MoveMember, moved); err != nil {
			return err
		}
	}
}
