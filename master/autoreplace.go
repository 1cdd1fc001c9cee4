package master

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/admission"
)

// absences records how long each member's directory has been silent, within one
// office. Every office starts from zero: earlier silence proves nothing about
// the others, because this replica may itself have been cut off. So a member
// may be replaced later than necessary, but never sooner.
type absences struct {
	at      time.Duration            // of the last poll
	unheard map[string]time.Duration // server id → for how long
	answers map[string]uint64        // server id → membership.MemberStatus.Answers at the last poll
}

// note records one poll of all members at an instant of the office's clock. A
// directory is present if it answered a message of Raft's since the previous
// poll, or answers now. Silence counts only while all other voters are well,
// poll by poll. Each poll adds at most the given time: a master that was
// paused, by itself or with its machine, asked no member in the meantime.
func (a *absences) note(now, most time.Duration, r pollResult) {
	since := min(now-a.at, most)
	unheard, answers := make(map[string]time.Duration, len(r.members)), make(map[string]uint64, len(r.members))
	for _, v := range r.members {
		id := admission.ServerID(v.ID, v.Directory)
		answers[id] = v.Answers
		if !r.othersAreWell(v.ID) {
			continue // silence counts from the first poll at which they are well
		}
		heard := v.there || v.Answers != a.answers[id]
		unheard[id] = 0
		if was, known := a.unheard[id]; known && !heard {
			unheard[id] = was + since
		}
	}
	a.at, a.unheard, a.answers = now, unheard, answers
}

// othersAreWell reports whether all voters of other names are well.
func (r pollResult) othersAreWell(id string) bool {
	return !slices.ContainsFunc(r.members, func(v member) bool { return v.ID != id && v.Voter && !v.well })
}

// of returns how long all directories of a name have been silent: the present
// one, and any that an operator has added to replace it.
func (a *absences) of(id string, r pollResult) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, v := range r.members {
		if v.ID == id {
			least = min(least, a.unheard[admission.ServerID(v.ID, v.Directory)])
		}
	}
	return least
}

// gone returns a member to replace and the new directory for it. The member was
// silent for the given time while all other voters were well. The new directory
// answers at the member's address, belongs to no cell and is not yet a member.
// Chubby's replacement (section 2) waits for some hours.
func (a *absences) gone(after time.Duration, r pollResult) (old int, directory string, ok bool) {
	for i, v := range r.members {
		if v.stranger == "" || a.of(v.ID, r) < after || r.isMember(v.stranger) {
			continue
		}
		if r.hasVoter(v.ID) && !v.Voter {
			continue // the voter's entry decides
		}
		return i, v.stranger, true
	}
	return 0, "", false
}

// isMember reports whether a directory is in the membership, with or without a
// vote.
func (r pollResult) isMember(directory string) bool {
	for _, v := range r.members {
		if v.Directory == directory {
			return true
		}
	}
	return false
}

// hasVoter reports whether a voter has that name.
func (r pollResult) hasVoter(id string) bool {
	for _, v := range r.members {
		if v.ID == id && v.Voter {
			return true
		}
	}
	return false
}

// replaceGone replaces a member that is gone by a new directory, as an operator
// would with Replace. It reports whether it did.
func (m *Master) replaceGone(ctx context.Context, a *absences, seen pollResult) bool {
	a.note(m.opts.Clock(), m.autoReplacePace()+2*askTimeout, seen)
	old, directory, ok := a.gone(m.opts.AutoReplace, seen)
	if !ok {
		return false
	}
	v := seen.members[old]
	m.opts.Logger.Warn().Str("member", v.ID).Str("lost", v.Directory).Str("directory", directory).
		Dur("unheard_ms", a.of(v.ID, seen)).Msg("auto-replace: a new directory replaces one that is gone")
	return m.quietly(ctx, func(ctx context.Context) error { return m.takeIn(ctx, seen, v.Member, directory) }) == nil
}

// autoReplacePace returns the interval between polls for members that are gone.
func (m *Master) autoReplacePace() time.Duration {
	return max(memberPace, min(memberRest, m.opts.AutoReplace/4))
}
