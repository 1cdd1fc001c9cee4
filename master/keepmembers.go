package master

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// How often a master checks for a change of the members that needs finishing.
const (
	memberPace = 500 * time.Millisecond // during a change
	memberRest = 10 * time.Second       // otherwise
)

// caughtUpWithin is how many entries a new directory may be behind when the old
// one is removed: fewer than arrive during the removal.
const caughtUpWithin = 256

// keepMembers finishes changes of the membership, including changes that an
// earlier master began, and keeps the table of members in the state. It runs
// for as long as the office.
//
// The remaining work follows from the configuration itself, so a crash or a
// change of master at any point is harmless. A nonvoter with a voter's name is
// to take that voter's place. A nonvoter without such a voter is to get a vote:
//
//	voter r1/old                    Replace begins: add r1/new as a nonvoter
//	voter r1/old, nonvoter r1/new   until r1/new has caught up; then remove r1/old
//	              nonvoter r1/new   make it a voter
//	              voter r1/new
//
// If one name has several nonvoting directories, only the latest gets the
// place; the others are removed (see superseded).
//
// Before the second step the change can be undone, by one entry that removes
// r1/new. The old directory is removed before the new one votes, so that two of
// one name never vote. Each step is one entry. The library makes it once the
// previous one, and an entry of the master's own term, are committed. A new
// directory that never catches up blocks nothing.
func (m *Master) keepMembers(o *office) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-o.done
		cancel()
	}()
	t := stoppedTimer()
	defer t.Stop()
	var a absences
	for {
		t.Reset(m.memberRound(ctx, o, &a))
		select {
		case <-o.done:
			return
		case <-m.memberWakeup:
		case <-t.C:
		}
	}
}

// memberRound takes as many steps as it can, and returns how long to wait until
// the next round.
func (m *Master) memberRound(ctx context.Context, o *office, a *absences) time.Duration {
	for {
		if m.quietly(ctx, func(ctx context.Context) error { return m.settleMembers(ctx, o) }) != nil || m.raiseLevel(ctx, o) != nil {
			return memberPace
		}
		now, err := m.members.Membership()
		if err != nil {
			return memberPace
		}
		toVote := slices.ContainsFunc(now.Members, m.isToVote)
		if !toVote && m.opts.AutoReplace == 0 {
			return memberRest
		}
		seen, err := m.poll(ctx)
		if err != nil {
			return memberPace
		}
		if m.opts.AutoReplace > 0 && m.replaceGone(ctx, a, seen) {
			continue
		}
		if !toVote {
			return m.autoReplacePace()
		}
		if m.quietly(ctx, func(ctx context.Context) error { return m.takeStep(ctx, seen) }) != nil {
			return memberPace
		}
	}
}

// errNoStep reports that no member can be given a vote now.
var errNoStep = errors.New("no member can be given a vote now")

// takeStep takes the next step towards a vote, exclusively. It reads behind a
// barrier whether the member is to have one: an earlier call may have decided
// otherwise and ended with an unknown outcome. Its entry is applied then.
func (m *Master) takeStep(ctx context.Context, seen pollResult) error {
	if err := m.log.Barrier(ctx); err != nil {
		return err
	}
	if step := seen.step(m.isToVote); step != nil {
		return step(ctx, m)
	}
	return errNoStep
}

// isToVote reports whether a nonvoting member is to get a vote.
func (m *Master) isToVote(s membership.MemberStatus) bool {
	put, _ := m.log.State().MemberNamed(s.ID)
	return !s.Voter && !put.Stays
}

// settleMembers finishes or undoes what an earlier master left half done: it
// removes superseded directories, drops members from the table that the
// configuration lacks, and updates the configuration to the addresses in the
// table.
func (m *Master) settleMembers(ctx context.Context, o *office) error {
	if now, err := m.members.Membership(); err != nil {
		return err
	} else if now.Changing {
		return membership.ErrBusy // the table may be ahead of a change that is not committed yet
	}
	if err := m.makeWay(ctx); err != nil {
		return err
	}
	now, err := m.members.Membership()
	if err != nil {
		return err
	}
	if err := m.noteMembers(o, now.Members); err != nil {
		return err
	}
	return m.move(ctx)
}

// makeWay removes superseded directories.
func (m *Master) makeWay(ctx context.Context) error {
	for {
		now, err := m.members.Membership()
		if err != nil {
			return errNoMaster("the membership is not known: %v", err)
		}
		i := superseded(now.Members)
		if i < 0 {
			return nil
		}
		if err := m.change(ctx, now.Index, membership.RemoveMember, now.Members[i]); err != nil {
			return err
		}
	}
}

// superseded returns the place of a nonvoting directory after which another one
// of its name was added, or -1. A configuration lists members in the order in
// which they were added.
func superseded(members []membership.MemberStatus) int {
	for i, s := range members {
		if !s.Voter && slices.ContainsFunc(members[i+1:], func(o membership.MemberStatus) bool { return o.ID == s.ID }) {
			return i
		}
	}
	return -1
}

// step returns the next step of a change that can be taken now, or nil. A
// directory that replaces the master's own is not well until the master's
// process has ended and the directory is in use there. Another master finishes
// that change.
func (r pollResult) step(isToVote func(membership.MemberStatus) bool) func(context.Context, *Master) error {
	for _, v := range r.members {
		if !isToVote(v.MemberStatus) || v.Directory != r.latest(v.ID) || !v.well || v.card.Applied+caughtUpWithin < r.applied {
			continue
		}
		old := slices.IndexFunc(r.members, func(o member) bool { return o.ID == v.ID && o.Voter })
		switch {
		case old < 0:
			return r.make(membership.MakeVoter, v)
		case r.mayRemove(old) == nil:
			return r.make(membership.RemoveMember, r.members[old])
		}
	}
	return nil
}

func (r pollResult) make(change membership.Change, v member) func(context.Context, *Master) error {
	return func(ctx context.Context, m *Master) error {
		if change == membership.MakeVoter && !m.isToVote(v.MemberStatus) {
			return nil // it now stays without a vote
		}
		return m.change(ctx, r.index, change, v.MemberStatus)
	}
}

// noteMembers updates the table of members in the state.
func (m *Master) noteMembers(o *office, now []membership.MemberStatus) error {
	var table []state.Member
	for _, s := range now {
		table = append(table, state.Member{ID: s.ID, Directory: s.Directory, RaftAddr: s.RaftAddr, URL: s.APIURL})
	}
	if table == nil || slices.EqualFunc(table, m.log.State().Members, sameMember) {
		return nil
	}
	_, err := o.propose(&Caller{}, &state.NoteMembers{Members: table})
	return err
}

// sameMember ignores the fields that NoteMembers leaves unchanged.
func sameMember(a, b state.Member) bool {
	a.Since, a.Put, a.Stays = b.Since, b.Put, b.Stays
	return a == b
}
