package master

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// askTimeout bounds how long a member has to report its status.
const askTimeout = time.Second

// CellID returns the id of the cell that this replica belongs to.
func (m *Master) CellID() string { return m.members.CellID() }

// Directory returns the id of this replica's data directory.
func (m *Master) Directory() string { return m.members.Directory() }

// ListMembers returns the members and their health, as this replica sees them.
// On the master it is linearizable.
func (m *Master) ListMembers(ctx context.Context, q *Read, _ *lockapi.ListMembers) (lockapi.Members, error) {
	if q.Stale {
		if _, err := read(ctx, m, q, func(*office, *state.State) (struct{}, error) { return struct{}{}, nil }); err != nil {
			return lockapi.Members{}, err
		}
	}
	seen, err := m.poll(ctx)
	if err != nil {
		return lockapi.Members{}, err
	}
	if q.Stale {
		return m.show(seen), nil
	}
	// The members were polled before the lease is checked: the answer was
	// true at that time.
	return linear(ctx, m, q, func(*office, *state.State) (lockapi.Members, error) { return m.show(seen), nil })
}

// GetURLs returns the URLs of the replicas. On the master they are as of the
// last change of the members, elsewhere as of this replica's configuration. No
// other replica is asked.
func (m *Master) GetURLs(ctx context.Context, q *Read, _ *lockapi.GetURLs) (lockapi.URLs, error) {
	return read(ctx, m, q, func(*office, *state.State) (lockapi.URLs, error) {
		members := m.members.Members()
		out := lockapi.URLs{CellID: m.members.CellID(), Replicas: []lockapi.ReplicaURL{}, MembersRevision: revisionOf(members)}
		for _, r := range onePerName(members) {
			out.Replicas = append(out.Replicas, lockapi.ReplicaURL{ID: r.ID, URL: r.APIURL})
		}
		return out, nil
	})
}

// member is one member with its answer to a poll.
type member struct {
	membership.MemberStatus
	card admission.Info
	// there reports that the member answered from that very directory;
	// well, that it also leads or has contact with a leader. stranger is
	// the directory that answered in its place and belongs to no cell, or
	// empty.
	there, well bool
	stranger    string
}

// pollResult is the membership with the answers of a poll.
type pollResult struct {
	index   uint64 // of the configuration
	applied uint64 // here
	members []member
}

// poll polls all members concurrently.
func (m *Master) poll(ctx context.Context) (pollResult, error) {
	now, err := m.members.Membership()
	if err != nil {
		return pollResult{}, errNoMaster("the membership is not known: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := pollResult{index: now.Index, members: make([]member, len(now.Members))}
	var asking sync.WaitGroup
	for i, s := range now.Members {
		asking.Go(func() {
			card, err := m.members.Ask(ctx, admission.ServerID(s.ID, s.Directory))
			there := err == nil && card.Directory == s.Directory && card.CellID == m.members.CellID()
			stranger := ""
			if err == nil && card.CellID == "" && card.Directory != s.Directory {
				stranger = card.Directory
			}
			if !there {
				card = admission.Info{}
			}
			out.members[i] = member{s, card, there, there && card.HasLeader, stranger}
		})
	}
	asking.Wait()
	out.applied = m.members.Health().Applied
	return out, nil
}

// voters returns the number of voters and how many of them are well, without
// the member at the given place (-1 counts all).
func (r pollResult) voters(but int) (all, well int) {
	for i, v := range r.members {
		if v.Voter && i != but {
			all++
			if v.well {
				well++
			}
		}
	}
	return all, well
}

// tolerates returns how many more of the well members may fail.
func (r pollResult) tolerates() int {
	all, well := r.voters(-1)
	return max(0, well-(all/2+1))
}

func (m *Master) show(r pollResult) lockapi.Members {
	known, s := m.Known(), m.log.State()
	out := lockapi.Members{CellID: m.members.CellID(), Members: []lockapi.Member{}, Tolerates: r.tolerates()}
	for _, v := range r.members {
		one := lockapi.Member{
			ID: v.ID, Directory: v.Directory, RaftAddr: v.RaftAddr, URL: v.APIURL,
			Suffrage: lockapi.SuffrageNonvoter, Role: memberRole(v.MemberStatus, known.ID),
			Healthy: v.well, AppliedIndex: v.card.Applied, Version: v.card.Version,
		}
		if v.Voter {
			one.Suffrage = lockapi.SuffrageVoter
		}
		if v.card.Applied < r.applied {
			one.Behind = r.applied - v.card.Applied
		}
		if noted, ok := s.Member(v.ID, v.Directory); ok {
			one.Since = time.Unix(0, noted.Since).UTC()
		}
		out.Members = append(out.Members, one)
	}
	return out
}

// ReplaceMember replaces a member's directory by another one. It returns once
// the new directory is a nonvoter; this master or the next does the rest (see
// keepMembers). If the new directory is pending already, the replacement
// continues; if it is the present one, it stays. Any other pending directory is
// removed. If the request names a directory to replace that is not the member's
// latest, the error is conflict, unless the latest is the new one.
func (m *Master) ReplaceMember(ctx context.Context, by *Caller, req *lockapi.ReplaceMember) (lockapi.MemberChange, error) {
	return lockapi.MemberChange{ID: req.ID, Directory: req.Directory}, m.served(func(o *office) error { return m.replace(ctx, o, by, req) })
}

func (m *Master) replace(ctx context.Context, o *office, by *Caller, req *lockapi.ReplaceMember) error {
	if err := o.admit(by); err != nil {
		return err
	}
	if err := req.Validate(); err != nil {
		return err
	}
	seen, err := m.poll(ctx)
	if err != nil {
		return err
	}
	old, err := seen.place(req.ID)
	if err != nil {
		return err
	}
	if err := seen.mayChange(req.ID, req.InPlaceOf); err != nil && seen.latest(req.ID) != req.Directory {
		return err
	}
	switch {
	case slices.ContainsFunc(seen.members, func(v member) bool { return v.ID == req.ID && v.Directory == req.Directory }):
		return m.exclusively(ctx, func(ctx context.Context) error { return m.drop(ctx, req.ID, req.Directory, seen.index) })
	case slices.ContainsFunc(seen.members, func(v member) bool { return v.Directory == req.Directory }):
		return lockapi.Errorf(lockapi.CodeConflict, "directory %s is another member's", req.Directory)
	}
	if err := seen.mayRemove(old); err != nil && !req.Force {
		return err
	}
	return m.exclusively(ctx, func(ctx context.Context) error {
		return m.takeIn(ctx, seen, seen.members[old].Member, req.Directory)
	})
}

// mayRemove returns the error of removing the member at a place if the cell
// would lose its majority.
func (r pollResult) mayRemove(place int) error {
	all, well := r.voters(place)
	if well > all/2 && all > 0 {
		return nil
	}
	v := r.members[place]
	return lockapi.Errorf(lockapi.CodeUnsafe,
		"without replica %s with directory %s, %d of %d voters are well, and the cell needs %d; repair the others first, or force it",
		v.ID, v.Directory, well, all, all/2+1)
}

// takeIn makes the new directory a nonvoter, and then removes an earlier
// nonvoter that was to have the same place. The new one is added first, so that
// the configuration always has the name: otherwise the cell would forget the
// member.
func (m *Master) takeIn(ctx context.Context, seen pollResult, as membership.Member, directory string) error {
	if err := m.change(ctx, seen.index, membership.AddNonvoter, membership.MemberStatus{Member: as, Directory: directory}); err != nil {
		return err
	}
	return halfway(m.makeWay(ctx))
}

// change makes one change and converts its result to an error of the contract.
func (m *Master) change(ctx context.Context, since uint64, change membership.Change, s membership.MemberStatus) error {
	err := m.members.ChangeMember(ctx, since, change, s)
	switch {
	case err == nil:
		m.opts.Logger.Info().Str("change", string(change)).Str("member", s.ID).Str("directory", s.Directory).Msg("the membership has changed")
		m.opts.happened(m.log, memberEvents[change], s.ID, m.log.State().Epoch)
		return nil
	case errors.Is(err, membership.ErrBusy):
		return lockapi.Errorf(lockapi.CodeBusy, "%v; try again when it is committed", err)
	case errors.Is(err, membership.ErrNotApplied):
		return errNoMaster("mastership was lost before the membership was changed")
	}
	return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the change of the membership (%s %s) may or may not take effect: %v; see GET %s", change, s.ID, err, lockapi.RouteMembers)
}
