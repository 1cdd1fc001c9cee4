package master

import (
	"context"
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/cell"
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
		step := seen.step(m.isToVote)
		if step == nil || m.quietly(ctx, func(ctx context.Context) error { return step(ctx, m) }) != nil {
			return memberPace
		}
	}
}

// isToVote reports whether a member is to get a vote that has none.
func (m *Master) isToVote(s cell.MemberStatus) bool {
	put, _ := m.log.State().MemberNamed(s.ID)
	return !s.Voter && !put.Stays
}

// settleMembers has the table and Raft's configuration say the same, whatever a
// master before has left: the table drops who is not in the configuration, and
// the configuration takes the addresses of the table.
func (m *Master) settleMembers(ctx context.Context, o *office) error {
	now, err := m.members.Membership()
	if err != nil {
		return err
	}
	if now.Changing {
		return cell.ErrBusy // the table may be ahead of a change that comes late
	}
	if err := m.noteMembers(o, now.Members); err != nil {
		return err
	}
	return m.move(ctx)
}

// step is the next step of a change that can be taken now, or nil. A directory
// that is to have the master's own place is not well before the master's
// process has ended and it runs there: another finishes that.
func (r roll) step(isToVote func(cell.MemberStatus) bool) func(context.Context, *Master) error {
	for _, v := range r.members {
		if !isToVote(v.MemberStatus) || !v.well || v.card.Applied+caughtUpWithin < r.applied {
			continue
		}
		old := slices.IndexFunc(r.members, func(o member) bool { return o.ID == v.ID && o.Voter })
		switch {
		case old < 0:
			return r.make(cell.MakeVoter, v)
		case r.mayRemove(old) == nil:
			return r.make(cell.RemoveMember, r.members[old])
		}
	}
	return nil
}

func (r roll) make(change cell.Change, v member) func(context.Context, *Master) error {
	return func(ctx context.Context, m *Master) error {
		if change == cell.MakeVoter && !m.isToVote(v.MemberStatus) {
			return nil // it has come to stay without one
		}
		return m.change(ctx, r.index, change, v.MemberStatus)
	}
}

// noteMembers has the state know the members as they are.
func (m *Master) noteMembers(o *office, now []cell.MemberStatus) error {
	var table []state.Member
	for _, s := range now {
		table = append(table, state.Member{ID: s.ID, Directory: s.Directory, RaftAddr: s.RaftAddr, URL: s.APIURL})
	}
	if table == nil || slices.EqualFunc(table, m.log.State().Members, sameMember) {
		return nil
	}
	_, err := o.propose(Caller{}, &state.NoteMembers{Members: table})
	return err
}

// sameMember leaves out what NoteMembers leaves as it is.
func sameMember(a, b state.Member) bool {
	a.Since, a.Put, a.Stays = b.Since, b.Put, b.Stays
	return a == b
}
