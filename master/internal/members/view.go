package members

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
)

// AskTimeout bounds how long a member has to report its status.
const AskTimeout = time.Second

// MaxLag is how many entries a new directory may be behind when the old one
// is removed: fewer than arrive during the removal.
const MaxLag = 256

// View is the membership with the answers of a poll.
type View struct {
	index    uint64 // of the configuration
	changing bool   // it may still be undone
	members  []member
}

// member is one member with its answer to a poll.
type member struct {
	membership.MemberStatus
	card admission.Info
	// there reports that this directory of the member answered; well, that it
	// also leads or has contact with a leader. stranger is the directory that
	// answered in its place and belongs to no cell, or empty.
	there, well bool
	// behind is how many entries this replica had applied, and the member had not,
	// at its answer. Answers come up to AskTimeout apart.
	behind   uint64
	stranger string
}

// Ask polls all members concurrently.
func (t *Table) Ask(ctx context.Context) (View, error) {
	now, err := t.membership()
	if err != nil {
		return View{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	out := View{index: now.Index, changing: now.Changing, members: make([]member, len(now.Members))}
	var asking sync.WaitGroup
	for i, s := range now.Members {
		asking.Go(func() {
			one := member{MemberStatus: s}
			card, err := t.cell.Ask(ctx, admission.ServerID(s.ID, s.Directory))
			switch {
			case err != nil:
			case card.Directory == s.Directory && card.CellID == t.cell.CellID():
				one.card, one.there, one.well = card, true, card.HasLeader
			case card.Directory != s.Directory && card.CellID == "":
				one.stranger = card.Directory
			}
			applied := t.cell.Health().Applied
			one.behind = applied - min(applied, one.card.Applied)
			out.members[i] = one
		})
	}
	asking.Wait()
	return out, nil
}

// AskSettled is Ask of a configuration that cannot be undone any longer.
func (t *Table) AskSettled(ctx context.Context) (View, error) {
	seen, err := t.Ask(ctx)
	if err != nil || !seen.changing {
		return seen, err
	}
	bounded, cancel := context.WithTimeout(ctx, changeBound)
	defer cancel()
	if err := t.opts.Barrier(bounded); err != nil {
		return View{}, errNoMaster("a change of the members is not committed yet: %v", err)
	}
	if seen, err = t.Ask(ctx); err == nil && seen.changing {
		err = errNoMaster("the members are changing again; ask once more")
	}
	return seen, err
}

// List returns a view in the form of the contract. A directory that waits to
// take the master's place is not the master.
func (t *Table) List(v View) lockapi.Members {
	s, master := t.opts.State(), t.opts.Master()
	all, well := v.voters(-1)
	out := lockapi.Members{CellID: t.cell.CellID(), Members: []lockapi.Member{}, Tolerates: max(0, well-(all/2+1))}
	for _, of := range v.members {
		one := lockapi.Member{
			ID: of.ID, Directory: of.Directory, RaftAddr: of.RaftAddr, URL: of.APIURL,
			Suffrage: lockapi.SuffrageNonvoter, Role: lockapi.RoleReplica,
			Healthy: of.well, AppliedIndex: of.card.Applied, Version: of.card.Version,
			Behind: of.behind,
		}
		if of.Voter {
			one.Suffrage = lockapi.SuffrageVoter
			if of.ID == master {
				one.Role = lockapi.RoleMaster
			}
		}
		if noted, ok := s.Member(of.ID, of.Directory); ok {
			one.Since = time.Unix(0, noted.Since).UTC()
		}
		out.Members = append(out.Members, one)
	}
	return out
}

// voters returns the number of voters and how many of them are well, without
// the member at the given place (-1 counts all).
func (v View) voters(but int) (all, well int) {
	for i, of := range v.members {
		if of.Voter && i != but {
			all++
			if of.well {
				well++
			}
		}
	}
	return all, well
}

// has reports whether there is such a member.
func (v View) has(such func(member) bool) bool { return slices.ContainsFunc(v.members, such) }

// place returns the place of a member: its voting directory if it has one.
func (v View) place(id string) (int, error) {
	i := slices.IndexFunc(v.members, func(m member) bool { return m.ID == id && m.Voter })
	if i < 0 {
		i = slices.IndexFunc(v.members, func(m member) bool { return m.ID == id })
	}
	if i < 0 {
		return i, lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member of this cell; GET %s lists them", id, lockapi.RouteMembers)
	}
	return i, nil
}

// latest returns the directory of a name that was added last, which the name
// keeps once every pending change is done.
func (v View) latest(id string) (directory string) {
	for _, m := range v.members {
		if m.ID == id {
			directory = m.Directory
		}
	}
	return directory
}

// mayChange refuses a request made when the member had another directory: it
// may have been delayed, and would undo a later change. An empty directory
// matches any.
func (v View) mayChange(id, directory string) error {
	if now := v.latest(id); directory != "" && directory != now {
		return lockapi.Errorf(lockapi.CodeConflict, "replica %q now has directory %s, not %s; see GET %s, and name the present one", id, now, directory, lockapi.RouteMembers)
	}
	return nil
}

// mayRemove returns the error of removing the member at a place if the cell
// would lose its majority. A voter that is far behind does not count: nothing
// would be committed until it has caught up.
func (v View) mayRemove(place int) error {
	all, well := v.voters(place)
	for i, of := range v.members {
		if of.Voter && i != place && of.well && of.behind > MaxLag {
			well--
		}
	}
	if well > all/2 && all > 0 {
		return nil
	}
	m := v.members[place]
	return lockapi.Errorf(lockapi.CodeUnsafe,
		"without replica %s with directory %s, %d of %d voters are well and up to date, and the cell needs %d; repair the others first, or force it",
		m.ID, m.Directory, well, all, all/2+1)
}

// level returns the highest level that all members know, up to most.
func (v View) level(most uint64) uint64 {
	for _, m := range v.members {
		most = min(most, m.card.Level)
	}
	return most
}

// Candidate returns the voter other than own with the fastest disk, or empty if
// no voter is fit. A fit voter is well and up to date, and a write to its disk
// takes no longer than write. With snapshot, own cannot send snapshots, and the
// candidate can. Otherwise a majority must be fit: else each entry would still
// wait for own's disk.
func (v View) Candidate(own string, write time.Duration, snapshot bool) string {
	best, fit, voters := "", 0, 0
	fastest := time.Duration(0)
	for _, m := range v.members {
		if !m.Voter {
			continue
		}
		voters++
		took := time.Duration(max(m.card.Sync, m.card.Writing)) * time.Microsecond
		if m.ID == own || !m.well || m.behind > MaxLag || m.card.Sync == 0 || took > write {
			continue // members of earlier releases do not report their disk
		}
		fit++
		if snapshot && m.card.Unsent > 0 {
			continue
		}
		if best == "" || took < fastest {
			best, fastest = m.ID, took
		}
	}
	if !snapshot && fit < voters/2+1 {
		return ""
	}
	return best
}
