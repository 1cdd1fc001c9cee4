package members

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// How long to wait until the next round.
const (
	pace = 500 * time.Millisecond // during a change
	rest = 10 * time.Second       // otherwise
)

// Round takes as many steps as it can, and returns how long to wait until the
// next round. It finishes changes of the membership, including changes that an
// earlier master began, and keeps the table of members in the state. contact is
// kept from one round of an office to the next.
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
// place; the others are removed (see makeWay).
//
// Before the second step the change can be undone, by one entry that removes
// r1/new. The old directory is removed before the new one votes, so that two of
// one name never vote. Each step is one entry. The library makes it once the
// previous one, and an entry of the master's own term, are committed. A new
// directory that never catches up blocks nothing.
func (t *Table) Round(ctx context.Context, o Office, contact *Contact) time.Duration {
	for {
		if t.quietly(ctx, o, func(ctx context.Context) error { return t.settle(ctx, o) }) != nil || t.RaiseLevel(ctx, o) != nil {
			return pace
		}
		now, err := t.membership()
		if err != nil {
			return pace
		}
		toVote := slices.ContainsFunc(now.Members, t.isToVote)
		if !toVote && t.opts.AutoReplace == 0 {
			return rest
		}
		seen, err := t.Ask(ctx)
		if err != nil {
			return pace
		}
		if t.opts.AutoReplace > 0 && t.replaceGone(ctx, o, contact, seen) {
			continue
		}
		if !toVote {
			return t.autoReplacePace()
		}
		if t.quietly(ctx, o, func(ctx context.Context) error { return t.advance(ctx, seen) }) != nil {
			return pace
		}
	}
}

// advance takes the next step towards a vote, exclusively. It reads behind a
// barrier whether the member is to have one: an earlier call may have decided
// otherwise and ended with an unknown outcome. Its entry is applied then.
func (t *Table) advance(ctx context.Context, seen View) error {
	if err := t.opts.Barrier(ctx); err != nil {
		return err
	}
	change, of, ok := seen.step(t.isToVote)
	if !ok {
		return errors.New("no member can be given a vote now")
	}
	return t.change(ctx, seen.index, change, of)
}

// isToVote reports whether a nonvoting member is to get a vote.
func (t *Table) isToVote(s membership.MemberStatus) bool {
	put, _ := t.opts.State().MemberNamed(s.ID)
	return !s.Voter && !put.Stays
}

// step returns the next step of a change, if one can be taken now. A directory
// that replaces the master's own is not well until the master's process has
// ended and the directory is in use there. Another master finishes that change.
func (v View) step(isToVote func(membership.MemberStatus) bool) (change membership.Change, of membership.MemberStatus, ok bool) {
	for _, m := range v.members {
		if !isToVote(m.MemberStatus) || m.Directory != v.latest(m.ID) || !m.well || m.behind > MaxLag {
			continue
		}
		old := slices.IndexFunc(v.members, func(o member) bool { return o.ID == m.ID && o.Voter })
		switch {
		case old < 0:
			return membership.MakeVoter, m.MemberStatus, true
		case v.mayRemove(old) == nil:
			return membership.RemoveMember, v.members[old].MemberStatus, true
		}
	}
	return "", membership.MemberStatus{}, false
}

// settle finishes or undoes what an earlier master left half done: it removes
// superseded directories, updates the table of members in the state to the
// configuration, and updates the configuration to the addresses in the table.
func (t *Table) settle(ctx context.Context, o Office) error {
	if now, err := t.membership(); err != nil {
		return err
	} else if now.Changing {
		return membership.ErrBusy // the table may be ahead of a change that is not committed yet
	}
	if err := t.makeWay(ctx); err != nil {
		return err
	}
	now, err := t.membership()
	if err != nil {
		return err
	}
	var table []state.Member
	for _, s := range now.Members {
		table = append(table, state.Member{ID: s.ID, Directory: s.Directory, RaftAddr: s.RaftAddr, URL: s.APIURL})
	}
	if table != nil && !slices.EqualFunc(table, t.opts.State().Members, sameMember) {
		if _, err := o.Put(&state.NoteMembers{Members: table}); err != nil {
			return err
		}
	}
	return t.move(ctx)
}

// sameMember ignores the fields that NoteMembers leaves unchanged.
func sameMember(a, b state.Member) bool {
	a.Since, a.Put, a.Stays = b.Since, b.Put, b.Stays
	return a == b
}

// makeWay removes superseded directories: nonvoting ones after which another
// directory of their name was added. A configuration lists members in the order
// in which they were added.
func (t *Table) makeWay(ctx context.Context) error {
	return t.repeat(ctx, membership.RemoveMember, func(now []membership.MemberStatus) (membership.MemberStatus, bool) {
		for i, s := range now {
			if !s.Voter && slices.ContainsFunc(now[i+1:], func(o membership.MemberStatus) bool { return o.ID == s.ID }) {
				return s, true
			}
		}
		return membership.MemberStatus{}, false
	})
}

// move updates Raft's configuration to the addresses in the table. The table
// may lack a directory yet.
func (t *Table) move(ctx context.Context) error {
	return t.repeat(ctx, membership.MoveMember, func(now []membership.MemberStatus) (membership.MemberStatus, bool) {
		s := t.opts.State()
		for _, is := range now {
			if put, _ := s.MemberNamed(is.ID); put.Put && put.RaftAddr != is.At {
				is.RaftAddr = put.RaftAddr
				return is, true
			}
		}
		return membership.MemberStatus{}, false
	})
}

// RaiseLevel raises the cell's level to the highest that all members know,
// nonvoters included. A member that does not answer has reported no level:
// raising waits for it, or for its replacement. See state.Level.
func (t *Table) RaiseLevel(ctx context.Context, o Office) error {
	if t.opts.State().Level >= t.opts.Level {
		return nil
	}
	seen, err := t.Ask(ctx)
	if err != nil {
		return err
	}
	to := seen.level(t.opts.Level)
	if to <= t.opts.State().Level {
		return nil
	}
	if _, err := o.Put(&state.RaiseLevel{Level: to}); err != nil {
		return err
	}
	t.opts.Logger.Info().Uint64("epoch", t.opts.State().Epoch).Uint64("cell_level", to).Msg("the cell's level was raised: replicas of earlier releases can no longer join")
	return nil
}
