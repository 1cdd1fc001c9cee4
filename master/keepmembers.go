package master

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// How often a master looks whether a change of the members is to be finished.
const (
	memberPace = 500 * time.Millisecond // while there is one
	memberRest = 10 * time.Second       // while there is none
)

// caughtUpWithin is how many entries a new directory may be behind when the old
// one is taken out: fewer than come while it is.
const caughtUpWithin = 256

// keepMembers finishes changes of the membership, whoever began them, and keeps
// the table of members in the state, for as long as the office lasts.
//
// What is left to do stands in the configuration itself, so that a crash or a
// change of master at any point loses nothing. A nonvoter of the same name as a
// voter is to take its place, and one of a name that no voter has is to get the
// place that is free:
//
//	voter r1/old                    Replace begins: add r1/new as a nonvoter
//	voter r1/old, nonvoter r1/new   until r1/new has caught up; then remove r1/old
//	              nonvoter r1/new   make it a voter
//	              voter r1/new
//
// Of several directories of one name without a vote only the one that was taken in
// last is to get the place: the others go (see superseded).
//
// Before the second step it can be taken back, by one entry that removes
// r1/new. The old one goes before the new one votes, so that two of one name
// never vote. Each step is one entry, made by the library when the one before
// it and an entry of the master's own term are committed. A new directory that
// never catches up holds nothing up.
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

// memberRound takes as many steps as it can, and returns how long it is to the
// next look.
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
		seen, err := m.look(ctx)
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

// errNoStep says that nothing is to be done for a vote now.
var errNoStep = errors.New("no member can be given a vote now")

// takeStep takes the next step to a vote, in its turn. Whether a member is to have one
// is read behind a barrier: a call that said otherwise may have ended without knowing
// its outcome, and its entry is applied then.
func (m *Master) takeStep(ctx context.Context, seen roll) error {
	if err := m.log.Barrier(ctx); err != nil {
		return err
	}
	if step := seen.step(m.isToVote); step != nil {
		return step(ctx, m)
	}
	return errNoStep
}

// isToVote reports whether a member is to get a vote that has none.
func (m *Master) isToVote(s membership.MemberStatus) bool {
	put, _ := m.log.State().MemberNamed(s.ID)
	return !s.Voter && !put.Stays
}

// settleMembers finishes or undoes what an earlier master has left half done:
// directories that another one supersedes go, the table drops the members that the
// configuration lacks, and the configuration takes the addresses of the table.
func (m *Master) settleMembers(ctx context.Context, o *office) error {
	if now, err := m.members.Membership(); err != nil {
		return err
	} else if now.Changing {
		return membership.ErrBusy // the table may be ahead of a change that comes late
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

// makeWay removes the directories that another one supersedes.
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

// superseded is the place of a directory without a vote behind which another of its
// name was taken in, or -1. A configuration lists members in the order in which they
// were taken in.
func superseded(members []membership.MemberStatus) int {
	for i, s := range members {
		if !s.Voter && slices.ContainsFunc(members[i+1:], func(o membership.MemberStatus) bool { return o.ID == s.ID }) {
			return i
		}
	}
	return -1
}

// step is the next step of a change that can be taken now, or nil. A directory
// that is to have the master's own place is not well before the master's
// process has ended and it runs there: another finishes that.
func (r roll) step(isToVote func(membership.MemberStatus) bool) func(context.Context, *Master) error {
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

func (r roll) make(change membership.Change, v member) func(context.Context, *Master) error {
	return func(ctx context.Context, m *Master) error {
		if change == membership.MakeVoter && !m.isToVote(v.MemberStatus) {
			return nil // it has come to stay without one
		}
		return m.change(ctx, r.index, change, v.MemberStatus)
	}
}

// noteMembers has the state know the members as they are.
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

// sameMember leaves out what NoteMembers leaves as it is.
func sameMember(a, b state.Member) bool {
	a.Since, a.Put, a.Stays = b.Since, b.Put, b.Stays
	return a == b
}
